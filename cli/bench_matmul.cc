#include "cli/bench.h"
#include "tril/containers/json.h"
#include "tril/kernels/matmul.h"
#include "tril/train/defaults.h"

namespace tril::cli {

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

}  // namespace tril::cli
