#include "net_ends.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchNetSsl, AsksAndServesUnderTls) {
  const net::JobKey key = net::JobKey::random();
  expect_questions_and_answers([&](net::Side side, int port) {
    return ssl_end(meet_at(port, side, ends_deadline()), side, key);
  });
}

TEST(BenchNetSsl, WantsTheSameKey) {
  with_both_sides([](net::Side side, int port) {
    FileDescriptor socket = meet_at(port, side, ends_deadline());
    EXPECT_THROW(ssl_end(std::move(socket), side, net::JobKey::random()), Error);
  });
}

}  // namespace
}  // namespace trireme::bench
