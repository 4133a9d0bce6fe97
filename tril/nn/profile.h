// Profile: where the time of a step goes. With Context::profile null nothing is measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace tril {

// A kind of work. Parts of the same name and sizes are added up: the layers of a model are alike.
struct Work {
  const char* name = "";              // a literal: compared by its address
  int64_t rows = 0, in = 0, out = 0;  // of a product; 0 for all else
  double operations = 0;              // floating-point operations that are needed
  double bytes = 0;                   // that must be read and written, each once
  bool operator==(const Work&) const = default;
};

class Profile {
 public:
  struct Part {
    Work work;  // of one call
    int64_t calls = 0;
    double seconds = 0;  // of all calls
  };

  // Adds its lifetime to the part; does nothing without a profile.
  class Timer {
   public:
    Timer(Profile* profile, const Work& work) : profile_(profile), work_(work) {
      if (profile_ != nullptr) start_ = Clock::now();
    }
    ~Timer() {
      if (profile_ != nullptr)
        profile_->add(work_, std::chrono::duration<double>(Clock::now() - start_).count());
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    Profile* profile_;
    Work work_;
    Clock::time_point start_;
  };

  const std::vector<Part>& parts() const { return parts_; }  // in the order of their first calls

 private:
  void add(const Work& work, double seconds) {
    for (Part& part : parts_) {
      if (part.work == work) {
        ++part.calls;
        part.seconds += seconds;
        return;
      }
    }
    parts_.push_back({work, 1, seconds});
  }

  std::vector<Part> parts_;
};

// 2 M N K operations.
inline Work product_work(const char* name, int64_t rows, int64_t in, int64_t out) {
  return {name,
          rows,
          in,
          out,
          2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out),
          0};
}

// A pass that reads and writes `floats` floats in all.
inline Work pass_work(const char* name, int64_t floats) {
  return {.name = name, .bytes = 4.0 * static_cast<double>(floats)};
}

}  // namespace tril
