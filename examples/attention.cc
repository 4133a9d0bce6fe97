// Attention and nothing else of tril, in a program with its own buffers and threads: forward and backward on
// a fused q|k|v buffer, then the gradient against a difference quotient. Links tril::attention only.
#include "tril/attention.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

// Threads of one's own: any way to call body(chunk, worker) for each chunk will do.
class OwnThreads final : public tril::Executor {
 public:
  int threads() const override { return 2; }
  void run(int64_t chunks, tril::FunctionRef<void(int64_t, int)> body) override {
    std::atomic<int64_t> next{0};
    const auto work = [&](int worker) {
      for (int64_t chunk; (chunk = next++) < chunks;) body(chunk, worker);
    };
    std::thread second(work, 1);
    work(0);
    second.join();
  }
};

int main() {
  constexpr int64_t B = 2, T = 100, H = 4, D = 32, kRow = 3 * H * D;  // a row of the buffer: q | k | v
  const tril::AttentionShape shape{
      .batch = B, .query_heads = H, .kv_heads = H, .query_length = T, .key_length = T, .head_size = D};
  const tril::AttentionOptions options{.causal = true, .window = 64};

  std::vector<float> qkv(B * T * kRow), dqkv(qkv.size()), out(B * T * H * D), dout(out.size());
  std::vector<float> running_max(B * H * T), running_sum(B * H * T);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(0.7f * static_cast<float>(i * i % 1009));
  for (size_t i = 0; i < dout.size(); ++i) dout[i] = std::cos(0.3f * static_cast<float>(i * i % 1013));

  // Strides in floats from one sequence, one position, one head to the next.
  const auto part = []<class Float>(Float* buffer, int64_t index) {
    return tril::HeadRows<Float>{buffer + index * H * D, T * kRow, kRow, D};
  };
  const auto rows = []<class Float>(Float* buffer) {
    return tril::HeadRows<Float>{buffer, T * H * D, H * D, D};
  };
  const float *const in = qkv.data(), *const o = out.data(), *const g = dout.data();

  OwnThreads threads;  // or tril::ThreadPool pool(tril::available_threads())
  std::vector<float> workspace(static_cast<size_t>(tril::attention_workspace(shape, threads.threads())));
  const auto loss = [&] {  // sum of dout * out
    tril::attention_forward(threads, shape, options, part(in, 0), part(in, 1), part(in, 2), rows(out.data()),
                            running_max.data(), running_sum.data(), workspace.data());
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(dout[i]) * out[i];
    return sum;
  };
  loss();
  tril::attention_backward(threads, shape, options, part(in, 0), part(in, 1), part(in, 2), rows(o),
                           running_max.data(), running_sum.data(), rows(g), part(dqkv.data(), 0),
                           part(dqkv.data(), 1), part(dqkv.data(), 2), workspace.data());

  // Along the gradient the loss must rise by its squared length.
  double squared = 0;
  for (const float d : dqkv) squared += static_cast<double>(d) * d;
  const double step = 0.1 / std::sqrt(squared);
  const auto moved = [&](double steps) {
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] += static_cast<float>(steps * step * dqkv[i]);
    return loss();
  };
  const double ratio = (moved(1) - moved(-2)) / (2 * step * squared);
  std::printf("slope along the gradient / its squared length: %.4f (1 if backward is right)\n", ratio);
  return std::abs(ratio - 1) < 0.01 ? 0 : 1;
}
