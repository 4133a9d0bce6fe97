#include <algorithm>
#include <vector>

#include "cli/bench.h"
#include "tril/kernels/attention.h"
#include "tril/kernels/machine.h"

namespace tril::cli {
namespace {

constexpr int64_t kHeads = 12, kHeadSize = 64;

// One new token at the end of a cache (K, T, D): the keys of a head lie side by side.
template <class Element>
class DecodeBench {
 public:
  DecodeBench(int64_t kv_heads, int64_t keys, int threads)
      : shape_{1, kHeads, kv_heads, 1, keys, kHeadSize},
        query_(random_tensor("bench query", kHeads * kHeadSize)),
        out_({kHeads * kHeadSize}),
        maximum_({kHeads}),
        sum_({kHeads}),
        workspace_({attention_forward_workspace(shape_, threads)}) {
    const Tensor values = random_tensor("bench cache", int64_t{1} << 20);
    for (Tensor* cache : {&key_, &value_}) {
      *cache = Tensor({kv_heads * keys * kHeadSize}, is_float ? DType::kF32 : DType::kBF16);
      for (int64_t i = 0; i < cache->elements(); ++i) {
        const float x = values.f32()[i & (values.elements() - 1)];
        if constexpr (is_float) {
          cache->f32()[i] = x;
        } else {
          reinterpret_cast<Bfloat16*>(cache->view().data)[i] = to_bfloat16(x);
        }
      }
    }
  }

  void forward(Executor& executor) {
    const int64_t channels = kHeads * kHeadSize;
    attention_forward(executor, shape_, {.query_offset = shape_.key_length - 1},
                      {query_.f32(), channels, channels, kHeadSize}, rows(key_), rows(value_),
                      {out_.f32(), channels, channels, kHeadSize}, maximum_.f32(), sum_.f32(),
                      workspace_.f32());
  }
  double bytes() const { return static_cast<double>(2 * key_.elements()) * sizeof(Element); }
  int64_t scratch_bytes() const { return int64_t{4} * workspace_.elements(); }

 private:
  static constexpr bool is_float = sizeof(Element) == sizeof(float);
  HeadRows<const Element> rows(const Tensor& cache) const {
    const int64_t head = shape_.key_length * kHeadSize;
    return {reinterpret_cast<const Element*>(cache.view().data), shape_.kv_heads * head, kHeadSize, head};
  }

  AttentionShape shape_;
  Tensor query_, out_, maximum_, sum_, workspace_, key_, value_;
};

}  // namespace

void bench_decode(const BenchOptions& options, Executor& executor) {
  BenchTable table(options.json);
  double bandwidth = 0;
  const auto measure = [&]<class Element>(const char* variant, const char* type, Element, int64_t kv_heads,
                                          int64_t keys) {
    DecodeBench<Element> bench(kv_heads, keys, executor.threads());
    const double seconds = median_seconds(options.seconds / 2, [&] { bench.forward(executor); });
    bandwidth = std::max(bandwidth, measure_read_bandwidth(executor));
    const double rate = bench.bytes() / seconds * 1e-9;
    table.row({{"variant", variant},
               {"type", type},
               {"B", 1},
               {"H", kHeads},
               {"K", kv_heads},
               {"T", keys},
               {"D", kHeadSize},
               {"microseconds", seconds * 1e6},
               {"gb_per_s", rate},
               {"bandwidth_gb_per_s", bandwidth},
               {"bandwidth_fraction", rate / bandwidth},
               {"scratch_bytes", bench.scratch_bytes()}});
  };
  for (const int64_t keys : {4096, 16384, 65536}) {
    measure("decode", "f32", float(), kHeads, keys);
    measure("decode", "bf16", Bfloat16(), kHeads, keys);
  }
  measure("decode 12:3", "f32", float(), 3, 65536);
  measure("decode 12:3", "bf16", Bfloat16(), 3, 65536);
}

}  // namespace tril::cli
