#include <algorithm>

#include "cli/bench.h"
#include "tril/kernels/attention.h"

namespace tril::cli {
namespace {

constexpr int64_t kHeads = 12, kHeadSize = 64, kRows = 4096;  // B T = kRows

// As in training: q, k and v are parts of one buffer (B, T, (H + 2 K) D), and so are their gradients.
struct AttentionBench {
  AttentionShape shape;
  AttentionOptions options;
  Tensor qkv, dqkv, out, dout, maximum, sum, workspace, dsinks;

  AttentionBench(const AttentionShape& s, const AttentionOptions& o, int threads)
      : shape(s),
        options(o),
        qkv(random_tensor("bench qkv", s.batch * s.query_length * width())),
        dqkv({s.batch * s.query_length * width()}),
        out({s.batch * s.query_length * channels()}),
        dout(random_tensor("bench dout", s.batch * s.query_length * channels())),
        maximum({s.batch * s.query_heads * s.query_length}),
        sum({s.batch * s.query_heads * s.query_length}),
        workspace({attention_workspace(s, threads)}),
        dsinks({s.batch * s.query_heads}) {}

  int64_t channels() const { return shape.query_heads * shape.head_size; }
  int64_t width() const { return channels() + 2 * shape.kv_heads * shape.head_size; }
  template <class Float>
  HeadRows<Float> rows(Float* base, int64_t offset, int64_t stride) const {
    return {base + offset, shape.query_length * stride, stride, shape.head_size};
  }
  template <class Float>
  HeadRows<Float> part(Float* base, int64_t index) const {  // 0: query, 1: key, 2: value
    const int64_t kv = shape.kv_heads * shape.head_size;
    return rows(base, index == 0 ? 0 : channels() + (index - 1) * kv, width());
  }
  ConstHeadView input(int64_t index) const { return part<const float>(qkv.f32(), index); }

  void forward(Executor& executor) {
    attention_forward(executor, shape, options, input(0), input(1), input(2), rows(out.f32(), 0, channels()),
                      maximum.f32(), sum.f32(), workspace.f32());
  }
  void backward(Executor& executor) {
    attention_backward(executor, shape, options, input(0), input(1), input(2),
                       rows<const float>(out.f32(), 0, channels()), maximum.f32(), sum.f32(),
                       rows<const float>(dout.f32(), 0, channels()), part(dqkv.f32(), 0), part(dqkv.f32(), 1),
                       part(dqkv.f32(), 2), workspace.f32(), dsinks.f32());
  }
};

// Pairs of a query and a key that it sees, of one head and sequence.
double visible_pairs(const AttentionShape& s, const AttentionOptions& o) {
  double pairs = 0;
  for (int64_t i = 0; i < s.query_length; ++i) {
    int64_t keys = o.window > 0 ? std::min(i + 1, o.window) : i + 1;
    if (o.documents)
      keys =
          std::min(keys, i + 1 - (std::find(o.documents, o.documents + i + 1, o.documents[i]) - o.documents));
    pairs += static_cast<double>(keys);
  }
  return pairs;
}

}  // namespace

void bench_attention(const BenchOptions& options, Executor& executor) {
  BenchTable table(options.json);
  Peak peak(executor);
  const auto measure = [&](const char* variant, int64_t T, const AttentionOptions& attention,
                           int64_t kv_heads = kHeads) {
    const int64_t B = std::max<int64_t>(1, kRows / T);
    const AttentionShape shape{B, kHeads, kv_heads, T, T, kHeadSize};
    AttentionBench bench(shape, attention, executor.threads());
    const double forward = median_seconds(options.seconds / 2, [&] { bench.forward(executor); });
    const double backward = median_seconds(options.seconds / 2, [&] { bench.backward(executor); });
    const double peak_gflops = peak.measure();
    // Useful work, of the visible pairs: 4 D each forward, 2.5 times that backward.
    const double flops =
        4.0 * static_cast<double>(B * kHeads * kHeadSize) * visible_pairs(shape, attention) * 1e-9;
    table.row({{"variant", variant},
               {"B", B},
               {"H", kHeads},
               {"T", T},
               {"D", kHeadSize},
               {"forward_gflops", flops / forward},
               {"backward_gflops", 2.5 * flops / backward},
               {"peak_fraction", 3.5 * flops / (forward + backward) / peak_gflops},
               {"scratch_bytes", int64_t{4} * attention_workspace(shape, executor.threads())}});
  };
  for (const int64_t T : {64, 128, 256, 512, 1024, 2048, 4096}) measure("causal", T, {});
  constexpr int64_t T = 2048;
  std::vector<int32_t> documents(kRows);
  for (size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<int32_t>(i / 512);
  const std::vector<float> per_head(kHeads, 0.1f);
  measure("grouped 12:3", T, {}, 3);
  measure("window 512", T, {.window = 512});
  measure("documents 512", T, {.documents = documents.data()});
  measure("ALiBi", T, {.alibi_slopes = per_head.data()});
  measure("softcap", T, {.softcap = 30});
  measure("sinks", T, {.sinks = per_head.data()});
  measure("dropout 0.1", T, {.dropout = 0.1f, .dropout_key = 1});
}

}  // namespace tril::cli
