#include "trireme/bench/net_node_end.h"

#include "net_ends.h"

namespace trireme::bench {
namespace {

std::unique_ptr<NodeEnd> plain_node(net::Side side, int port) {
  return std::make_unique<NodeEnd>(
      net::Security::insecure_loopback(), side, port, ends_deadline());
}

TEST(BenchNetNodeEnd, AsksAndServes) {
  expect_questions_and_answers(plain_node);
}

TEST(BenchNetNodeEnd, AsksInAChain) {
  with_both_sides([](net::Side side, int port) {
    const auto node = plain_node(side, port);
    std::vector<std::byte> word(8);
    if (side == net::Side::Acceptor)
      return node->serve(10, word, word);
    const auto times = node->ask_in_chain(10, word, word);
    ASSERT_EQ(times.size(), 10u);
    for (const double seconds : times)
      EXPECT_GT(seconds, 0);
  });
}

// The sleeping side may be late: what came before it serves is answered all the same.
TEST(BenchNetNodeEnd, AnswersWhatCameEarly) {
  with_both_sides([](net::Side side, int port) {
    const auto node = plain_node(side, port);
    std::vector<std::byte> word(8);
    if (side == net::Side::Dialer)
      return node->ask(word, word);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    node->serve(1, word, word);
  });
}

TEST(BenchNetNodeEnd, TellsWhenASmallMessageHasOvertaken) {
  NodeEnd::Clock::time_point sent, came;
  with_both_sides([&](net::Side side, int port) {
    const auto node = plain_node(side, port);
    std::vector<std::byte> large(std::size_t{8} << 20);
    if (side == net::Side::Dialer)
      sent = node->overtake(large);
    else
      came = node->serve_overtaking(1, large).at(0);
  });
  EXPECT_GT(came, sent);
}

TEST(BenchNetNodeEnd, KeepsMoreSessions) {
  with_both_sides([](net::Side side, int port) {
    const auto node = plain_node(side, port);
    std::vector<std::byte> word(1);
    for (int i = 0; i < 2; ++i) {
      node->add_sessions(5, ends_deadline());
      side == net::Side::Dialer ? node->ask(word, word) : node->serve(1, word, word);
      node->drop_sessions(ends_deadline());
      side == net::Side::Dialer ? node->ask(word, word) : node->serve(1, word, word);
    }
  });
}

}  // namespace
}  // namespace trireme::bench
