// With equal scores the second query averages both values it sees: exits 0 if it does.
#include <cstdio>
#include <vector>

#include "tril/attention.h"

int main() {
  const tril::AttentionShape shape{
      .batch = 1, .query_heads = 1, .kv_heads = 1, .query_length = 2, .key_length = 2, .head_size = 2};
  const float query[4] = {0, 0, 0, 0}, key[4] = {1, 2, 3, 4}, value[4] = {1, 10, 3, 30};
  float out[4], running_max[2], running_sum[2];
  std::vector<float> workspace(tril::attention_workspace(shape, 1));
  tril::SerialExecutor executor;
  tril::attention_forward(executor, shape, {}, {query, 4, 2, 2}, {key, 4, 2, 2}, {value, 4, 2, 2},
                          {out, 4, 2, 2}, running_max, running_sum, workspace.data());
  std::printf("%g %g\n%g %g\n", out[0], out[1], out[2], out[3]);
  return out[0] == 1 && out[1] == 10 && out[2] == 2 && out[3] == 20 ? 0 : 1;
}
