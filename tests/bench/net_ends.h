// The two ends of a connection, in two threads of one process.
#pragma once
#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/bench/net_end.h"
#include "trireme/launch/variables.h"

namespace trireme::bench {

inline Deadline ends_deadline() {
  return Deadline::after(std::chrono::seconds(20));
}

/// Lets both sides do their part at the same time, at a port that is free.
template <class Part>
void with_both_sides(const Part& part) {
  const int port = launch::free_port();
  std::thread acceptor([&] { part(net::Side::Acceptor, port); });
  part(net::Side::Dialer, port);
  acceptor.join();
}

/// Asks a few times, and looks at what has come on either side.
template <class MakeEnd>
void expect_questions_and_answers(const MakeEnd& make_end) {
  constexpr int kTimes = 3;
  with_both_sides([&](net::Side side, int port) {
    const std::unique_ptr<NetEnd> end = make_end(side, port);
    const std::vector<std::byte> question(100'000, std::byte{7}),
        answer(64, std::byte{9});
    if (side == net::Side::Acceptor) {
      std::vector<std::byte> got(question.size());
      end->serve(kTimes, got, answer);
      EXPECT_EQ(got, question);
      return;
    }
    std::vector<std::byte> got(answer.size());
    for (int i = 0; i < kTimes; ++i) {
      std::fill(got.begin(), got.end(), std::byte{0});
      end->ask(question, got);
      EXPECT_EQ(got, answer);
    }
  });
}

}  // namespace trireme::bench
