#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"
#include "cli/memory.h"
#include "tril/containers/json.h"
#include "tril/kernels/machine.h"
#include "tril/kernels/matmul.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril doctor\n"
    "  tril doctor --json";

Json machine_json(Executor& executor) {
  return {{"processor", processor_name()},
          {"threads", executor.threads()},
          {"instruction_set", instruction_set()},
          {"available_memory_bytes", static_cast<int64_t>(available_memory())},
          {"fma_peak_gflops", measure_fma_peak_gflops(executor)},
          {"read_bandwidth_gb_per_s", measure_read_bandwidth(executor)},
          {"matmul_engine", matmul_engine()},
          {"matmul_gflops", measure_matmul_gflops(executor)}};
}

void print_machine(const Json& m) {
  fmt::print("processor    {}, {} threads, {}\n", m["processor"].get<std::string>(), to_text(m["threads"]),
             m["instruction_set"].get<std::string>());
  fmt::print("memory       {} available, read at {:.1f} GB/s\n",
             format_bytes(m["available_memory_bytes"].get<double>()),
             m["read_bandwidth_gb_per_s"].get<double>());
  fmt::print(
      "arithmetic   {:.0f} GFLOP/s peak of fused multiply-adds; matrix products {:.0f} ({:.0f}%) with {}\n\n",
      m["fma_peak_gflops"].get<double>(), m["matmul_gflops"].get<double>(),
      100 * m["matmul_gflops"].get<double>() / m["fma_peak_gflops"].get<double>(),
      m["matmul_engine"].get<std::string>());
}

}  // namespace

int doctor_command(const Arguments& words) {
  bool json = false;
  int64_t threads = 0;
  CommandLine line(
      "doctor",
      "What this machine can do, and whether tril computes correctly on it: kernels against plain loops\n"
      "in double, a small model against what it must learn. Exit code 3 if a check fails.",
      kExamples);
  line.threads(threads);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;

  ThreadPool pool(static_cast<int>(threads));
  Json report = {{"version", TRIL_VERSION}, {"machine", machine_json(pool)}, {"checks", Json::array()}};
  if (!json) print_machine(report["machine"]);
  Checks checks;
  check_kernels(pool, checks);
  check_attention(pool, checks);
  check_models(checks);
  int failed = 0;
  for (const CheckResult& check : checks) {
    failed += check.ok() ? 0 : 1;
    report["checks"].push_back({{"name", check.name},
                                {"ok", check.ok()},
                                {"error", check.error},
                                {"bound", check.bound},
                                {"detail", check.detail}});
    if (!json)
      fmt::print("{:<6} {:<28} {:<9.3g} bound {:<7.3g} {}\n", check.ok() ? "OK" : "FAILED", check.name,
                 check.error, check.bound, check.detail);
  }
  report["ok"] = failed == 0;
  if (json)
    std::puts(to_text(report).c_str());
  else
    fmt::print("\n{}\n", failed == 0 ? "all checks hold" : fmt::format("{} checks FAILED", failed));
  return failed == 0 ? 0 : 3;
}

}  // namespace tril::cli
