#include "tril/nn/linear.h"

#include "tril/kernels/elementwise.h"

namespace tril {

void linear_forward(const Context& context, int64_t rows, int64_t in, int64_t out, const float* x,
                    int64_t x_stride, const ConstView& weight, const float* bias, float* y, Epilogue after) {
  const Profile::Timer timer = context.timer(product_work("y = x W^T", rows, in, out));
  const Arena::Scope scope(context.scratch);
  const auto epilogue = [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
    if (bias != nullptr) {
      for (int64_t r = row; r < row + count; ++r) add_row(columns, bias + column, y + r * out + column);
    }
    if (after) after(row, count, column, columns);
  };
  const bool floats = weight.dtype == DType::kF32;
  matmul(context.executor,
         {.transpose_b = Transpose::kYes,
          .m = rows,
          .n = out,
          .k = in,
          .a = x,
          .lda = x_stride,
          .b = floats ? weight.f32() : nullptr,
          .ldb = in,
          .c = y,
          .ldc = out,
          .stored = floats ? StoredRows() : StoredRows(weight)},
         context.scratch.allocate_f32(matmul_workspace(rows, out, in, weight.dtype)),
         bias != nullptr || after ? Epilogue(epilogue) : Epilogue());
}

void linear_backward_input(const Context& context, int64_t rows, int64_t in, int64_t out, const float* dy,
                           const float* weight, float* dx, Epilogue after, bool accumulate_dx) {
  const Profile::Timer timer = context.timer(product_work("dx = dy W", rows, in, out));
  const Arena::Scope scope(context.scratch);
  matmul(context.executor,
         {.m = rows,
          .n = in,
          .k = out,
          .a = dy,
          .lda = out,
          .b = weight,
          .ldb = in,
          .c = dx,
          .ldc = in,
          .accumulate = accumulate_dx},
         context.scratch.allocate_f32(matmul_workspace(rows, in, out)), after);
}

void linear_backward_weights(const Context& context, int64_t rows, int64_t in, int64_t out, const float* x,
                             const float* dy, float* dweight, float* dbias) {
  const Profile::Timer timer = context.timer(product_work("dW += dy^T x", rows, in, out));
  const Arena::Scope scope(context.scratch);
  matmul(context.executor,
         {.transpose_a = Transpose::kYes,
          .m = out,
          .n = in,
          .k = rows,
          .a = dy,
          .lda = out,
          .b = x,
          .ldb = in,
          .c = dweight,
          .ldc = in,
          .accumulate = true},
         context.scratch.allocate_f32(matmul_workspace(out, in, rows)));
  if (dbias != nullptr) {
    bias_backward(context.executor, rows, out, dy, dbias,
                  context.scratch.allocate_f32(bias_backward_workspace(rows, out)));
  }
}

Linear::Linear(const LinearConfig& config) : config_(config) {
  check_use(config.in > 0 && config.out > 0, "Linear: in {} and out {} must be positive", config.in,
            config.out);
}

void Linear::forward(const Context& context, ConstView x, View y, Epilogue after) const {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, config_.in}, "Linear input (N, in)");
  check_shape(y, {rows, config_.out}, "Linear output (N, out)");
  linear_forward(context, rows, config_.in, config_.out, x.f32(), config_.in, weight.value, bias.value.f32(),
                 y.f32(), after);
}

void Linear::backward_input(const Context& context, ConstView dy, View dx, Epilogue after,
                            bool accumulate_dx) const {
  const int64_t rows = dy.shape[0];
  check_shape(dy, {rows, config_.out}, "Linear dy (N, out)");
  check_shape(dx, {rows, config_.in}, "Linear dx (N, in)");
  linear_backward_input(context, rows, config_.in, config_.out, dy.f32(), weight.value.f32(), dx.f32(), after,
                        accumulate_dx);
}

void Linear::backward_weights(const Context& context, ConstView x, ConstView dy) {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, config_.in}, "Linear input (N, in)");
  check_shape(dy, {rows, config_.out}, "Linear dy (N, out)");
  check_shape(weight.gradient, {config_.out, config_.in}, "Linear weight gradient (out, in)");
  linear_backward_weights(context, rows, config_.in, config_.out, x.f32(), dy.f32(), weight.gradient.f32(),
                          bias.gradient.f32());
}

void Linear::visit(const std::string& prefix, ParameterVisitor visit, std::vector<ParameterPart> parts) {
  visit({.name = prefix + "weight",
         .shape = {config_.out, config_.in},
         .init_std = config_.init_std,
         .decay = true,
         .hidden = true,
         .product = true,
         .parts = std::move(parts)},
        weight);
  if (config_.bias) visit({.name = prefix + "bias", .shape = {config_.out}}, bias);
}

namespace {

template <class AnyView>
AnyView rows_of(const AnyView& view, int64_t channels, std::string_view what) {
  const int rank = view.shape.rank();
  check_use(rank >= 1 && view.shape[rank - 1] == channels, "{}: shape {} where (.., {}) is expected", what,
            view.shape, channels);
  return view.reshape({view.elements() / channels, channels});
}

}  // namespace

ConstView as_rows(ConstView view, int64_t channels, std::string_view what) {
  return rows_of(view, channels, what);
}
View as_rows(View view, int64_t channels, std::string_view what) { return rows_of(view, channels, what); }

}  // namespace tril
