#include "trireme/bench/net_end.h"

#include "net_ends.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchNetEnd, AsksAndServesOverASocket) {
  expect_questions_and_answers([](net::Side side, int port) {
    return raw_end(meet_at(port, side, ends_deadline()));
  });
}

TEST(BenchNetEnd, GivesUpWhenNobodyComes) {
  const auto soon = [] { return Deadline::after(std::chrono::milliseconds(20)); };
  const int port = launch::free_port();
  EXPECT_THROW(meet_at(port, net::Side::Dialer, soon()), Error);
  EXPECT_THROW(meet_at(port, net::Side::Acceptor, soon()), Error);
}

TEST(BenchNetEnd, NoticesThatTheOtherSideIsGone) {
  with_both_sides([](net::Side side, int port) {
    const auto end = raw_end(meet_at(port, side, ends_deadline()));
    if (side == net::Side::Acceptor)
      return;
    std::vector<std::byte> word(8);
    EXPECT_THROW(end->ask(word, word), Error);
  });
}

}  // namespace
}  // namespace trireme::bench
