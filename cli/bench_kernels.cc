#include <algorithm>

#include "cli/bench.h"
#include "cli/doctor_checks.h"
#include "tril/containers/json.h"
#include "tril/kernels/attention.h"
#include "tril/kernels/matmul.h"
#include "tril/tensor/tensor.h"
#include "tril/train/defaults.h"

namespace tril::cli {
namespace {

Tensor random_tensor(const char* name, int64_t count) {
  Tensor tensor({count});
  const std::vector<float> values = doctor_random(name, std::min<int64_t>(count, 1 << 20));
  for (int64_t i = 0; i < count; ++i) tensor.f32()[i] = values[static_cast<size_t>(i) % values.size()];
  return tensor;
}

}  // namespace

void bench_matmul(const BenchOptions& options, Executor& executor) {
  const Preset& preset = find_preset(options.preset);
  const TransformerConfig c = model_config(preset.options, preset.vocabulary).resolved();
  const int64_t rows = preset.options.batch * c.context;
  struct Layer {
    const char* name;
    int64_t in, out;
  };
  const Layer layers[] = {{"qkv", c.channels, (c.heads + 2 * c.kv_heads) * c.head_size},
                          {"projection", c.heads * c.head_size, c.channels},
                          {"mlp.hidden", c.channels, c.mlp_hidden},
                          {"mlp.projection", c.mlp_hidden, c.channels},
                          {"lm_head", c.channels, c.vocabulary}};
  BenchTable table(options.json);
  Peak peak(executor);
  for (const Layer& layer : layers) {
    const Tensor x = random_tensor("bench x", rows * layer.in),
                 w = random_tensor("bench w", layer.in * layer.out);
    const Tensor dy = random_tensor("bench dy", rows * layer.out);
    Tensor y({rows * layer.out}), dx({rows * layer.in}), dw({layer.in * layer.out});
    const int64_t in = layer.in, out = layer.out;
    const Product forward{.transpose_b = Transpose::kYes,
                          .m = rows,
                          .n = out,
                          .k = in,
                          .a = x.f32(),
                          .lda = in,
                          .b = w.f32(),
                          .ldb = in,
                          .c = y.f32(),
                          .ldc = out};
    const Product input{.m = rows,
                        .n = in,
                        .k = out,
                        .a = dy.f32(),
                        .lda = out,
                        .b = w.f32(),
                        .ldb = in,
                        .c = dx.f32(),
                        .ldc = in};
    const Product weights{.transpose_a = Transpose::kYes,
                          .m = out,
                          .n = in,
                          .k = rows,
                          .a = dy.f32(),
                          .lda = out,
                          .b = x.f32(),
                          .ldb = in,
                          .c = dw.f32(),
                          .ldc = in,
                          .accumulate = true};
    const std::pair<const char*, const Product*> products[] = {
        {"forward", &forward}, {"input", &input}, {"weights", &weights}};
    for (const auto& pair : products) {
      const char* part = pair.first;
      const Product* product = pair.second;
      Tensor workspace({matmul_workspace(product->m, product->n, product->k) + 1});
      const double seconds =
          median_seconds(options.seconds, [&] { matmul(executor, *product, workspace.f32()); });
      const double peak_gflops = peak.measure();
      const double flops = 2.0 * static_cast<double>(product->m) * static_cast<double>(product->n) *
                           static_cast<double>(product->k);
      table.row({{"layer", layer.name},
                 {"part", part},
                 {"M", product->m},
                 {"N", product->n},
                 {"K", product->k},
                 {"gflops", flops / seconds * 1e-9},
                 {"peak_fraction", flops / seconds * 1e-9 / peak_gflops}});
    }
  }
}

void bench_attention(const BenchOptions& options, Executor& executor) {
  BenchTable table(options.json);
  Peak peak(executor);
  for (const int64_t T : {64, 128, 256, 512, 1024, 2048, 4096}) {
    const int64_t B = std::max<int64_t>(1, 4096 / T), H = 12, D = 64;
    const AttentionShape shape{
        .batch = B, .query_heads = H, .kv_heads = H, .query_length = T, .key_length = T, .head_size = D};
    const AttentionOptions attention;
    const int64_t count = B * T * H * D;
    // As in training: q, k and v are parts of one buffer (B, T, 3 H D).
    const Tensor qkv = random_tensor("bench qkv", 3 * count), dout = random_tensor("bench dout", count);
    Tensor out({count}), dqkv({3 * count}), maximum({B * H * T}), sum({B * H * T});
    Tensor workspace({attention_workspace(shape, executor.threads()) + 1});
    const auto part = [&](const float* base, int64_t index) {
      return ConstHeadView{base + index * H * D, T * 3 * H * D, 3 * H * D, D};
    };
    const auto gradient = [&](int64_t index) {
      return HeadView{dqkv.f32() + index * H * D, T * 3 * H * D, 3 * H * D, D};
    };
    const double forward = median_seconds(options.seconds / 2, [&] {
      attention_forward(executor, shape, attention, part(qkv.f32(), 0), part(qkv.f32(), 1),
                        part(qkv.f32(), 2), {out.f32(), T * H * D, H * D, D}, maximum.f32(), sum.f32(),
                        workspace.f32());
    });
    const double backward = median_seconds(options.seconds / 2, [&] {
      attention_backward(executor, shape, attention, part(qkv.f32(), 0), part(qkv.f32(), 1),
                         part(qkv.f32(), 2), {out.f32(), T * H * D, H * D, D}, maximum.f32(), sum.f32(),
                         {dout.f32(), T * H * D, H * D, D}, gradient(0), gradient(1), gradient(2),
                         workspace.f32());
    });
    const double peak_gflops = peak.measure();
    // Useful work of the causal half: 4 B H D T (T + 1) / 2 forward, 2.5 times that backward.
    const double flops =
        2.0 * static_cast<double>(B * H * D) * static_cast<double>(T) * static_cast<double>(T + 1);
    const double forward_gflops = flops / forward * 1e-9, backward_gflops = 2.5 * flops / backward * 1e-9;
    table.row({{"variant", "causal"},
               {"B", B},
               {"H", H},
               {"T", T},
               {"D", D},
               {"forward_gflops", forward_gflops},
               {"backward_gflops", backward_gflops},
               {"peak_fraction", 3.5 * flops / (forward + backward) * 1e-9 / peak_gflops}});
  }
}

}  // namespace tril::cli
