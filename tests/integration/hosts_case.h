// Jobs on several hosts, in networks that can be slow, cut or wrong.
#pragma once
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/host_job.h"

namespace trireme::comm {

using testing::HostJob;
using testing::Hosts;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// One pair of hosts for all jobs of a program.
inline Hosts& two_hosts() {
  static const auto both = std::make_unique<Hosts>();
  return *both;
}

/// Skips where there can be no hosts.
class HostsCase : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::missing(); !why.empty())
      GTEST_SKIP() << why;
  }
};

/// Numbers that are the same wherever and whenever they are made.
inline at::Tensor some_numbers(int64_t count, int64_t seed) {
  return at::sin(at::arange(count, at::kFloat) * 0.37 + static_cast<double>(seed));
}

/// A number that changes with every bit.
inline uint64_t hash_of(const at::Tensor& tensor, uint64_t hash) {
  const at::Tensor flat = tensor.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(flat.data_ptr());
  for (size_t i = 0; i < flat.nbytes(); ++i)
    hash = (hash ^ bytes[i]) * 1099511628211ULL;
  return hash;
}

/// Calls of all kinds and sizes; gives a hash of all results. `round` makes them
/// differ.
inline uint64_t mixed_work(const Group& world, int64_t round) {
  const int rank = world.rank();
  const int size = world.size();
  uint64_t hash = 14695981039346656037ULL;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int64_t count : {1, 1000, 30'000, 400'000}) {
      at::Tensor sum = some_numbers(count, 100 * round + rank).to(dtype);
      all_reduce(world, sum);
      hash = hash_of(sum, hash);
    }
  at::Tensor news = some_numbers(200'000, rank + round);
  broadcast(world, news, static_cast<int>(round) % size);
  at::Tensor all = at::empty({size * 5000});
  all_gather(world, all, some_numbers(5000, rank - round));
  const int tag = static_cast<int>(round);
  const Channel out(world, {rank, (rank + 1) % size, tag});
  const Channel in(world, {(rank + size - 1) % size, rank, tag});
  out.send({.tensors = {some_numbers(50'000, 7 * rank + round)}});
  hash = hash_of(in.receive().tensors[0], hash);
  barrier(world);
  return hash_of(all, hash_of(news, hash));
}

/// What mixed_work() gives on each rank of so many, for each round; of threads of this
/// process.
inline std::vector<std::vector<uint64_t>> right_answers(int ranks, int rounds) {
  std::vector<std::vector<uint64_t>> answers(static_cast<size_t>(ranks));
  run_local(ranks, [&](const Group& world) {
    for (int round = 0; round < rounds; ++round)
      answers[static_cast<size_t>(world.rank())].push_back(mixed_work(world, round));
  });
  return answers;
}

/// What a rank hears that loses others, as an exit code.
enum Heard { kRight = 0, kNamed = 42, kLateNamed = 43, kOther = 3 };

/// Runs `body` and tells by which error it ends: kNamed for PeerError that is
/// `expected`, kLateNamed for TimeoutError that says one of `words`.
inline int heard_in(
    int rank,
    const std::function<bool(const PeerError&)>& expected,
    const std::string& words,
    const std::function<void()>& body) {
  try {
    body();
    return kRight;
  } catch (const PeerError& error) {
    if (expected(error))
      return kNamed;
    std::cerr << "rank " << rank << " heard of rank " << error.rank() << ": "
              << error.what() << std::endl;
  } catch (const TimeoutError& error) {
    if (!words.empty() && std::string(error.what()).find(words) != std::string::npos)
      return kLateNamed;
    std::cerr << "rank " << rank << " waited in vain: " << error.what() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "rank " << rank << ": " << error.what() << std::endl;
  }
  return kOther;
}

/// When the last of some processes heard of a failure.
class LastHeard {
 public:
  /// Runs `body`; notes when it throws.
  template <class Body>
  void in(const Body& body) const {
    try {
      body();
    } catch (...) {
      note();
      throw;
    }
  }
  Clock::duration since(Clock::time_point start) const {
    return Clock::time_point(Clock::duration(*last_)) - start;
  }

 private:
  void note() const {
    const int64_t now = Clock::now().time_since_epoch().count();
    for (int64_t last = *last_; last < now;)
      if ((*last_).compare_exchange_weak(last, now))
        return;
  }
  testing::SharedNumber last_;
};

inline std::function<bool(const PeerError&)> exactly(int wanted) {
  return [wanted](const PeerError& error) { return error.rank() == wanted; };
}

/// Waits until a number that processes share has come so far.
inline void await_number(const testing::SharedNumber& number, int64_t wanted) {
  const auto end = Clock::now() + 20s;
  while (*number < wanted && Clock::now() < end)
    std::this_thread::sleep_for(1ms);
  ASSERT_GE((*number).load(), wanted);
}

}  // namespace trireme::comm
