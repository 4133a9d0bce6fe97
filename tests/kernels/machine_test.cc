#include "tril/kernels/machine.h"

#include <gtest/gtest.h>

namespace tril {
namespace {

TEST(Machine, HasNames) {
  EXPECT_FALSE(instruction_set().empty());
  EXPECT_FALSE(processor_name().empty());
  EXPECT_EQ(processor_name().find('\n'), std::string::npos);
}

TEST(Machine, MeasuresAPlausiblePeak) {
  ThreadPool pool(2);
  const double peak = measure_fma_peak_gflops(pool, 0.05);
  EXPECT_GT(peak, 0.5);   // a scalar unit at 250 MHz
  EXPECT_LT(peak, 1000);  // two cores at 6 GHz with 64 operations a cycle would be 768
}

TEST(Machine, MeasuresAPlausibleBandwidth) {
  ThreadPool pool(2);
  const double bandwidth = measure_read_bandwidth(pool, 0.02);
  EXPECT_GT(bandwidth, 0.1);
  EXPECT_LT(bandwidth, 2000);
}

}  // namespace
}  // namespace tril
