#include "trireme/comm/tcp/tcp_mail.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TcpTransferPtr transfer_of(
    uint64_t number, std::vector<std::byte>& memory, bool sends) {
  return std::make_shared<TcpTransfer>(TcpTransfer{
      .group = 1,
      .peer = 2,
      .number = number,
      .data = memory.data(),
      .bytes = memory.size(),
      .sends = sends});
}
Buffer buffer_of(BufferPool& pool, size_t bytes, int value) {
  Buffer buffer = pool.take(bytes);
  std::memset(buffer.data(), value, bytes);
  return buffer;
}

TEST(TcpMail, WhatComesEarlyIsKept) {
  BufferPool pool;
  TcpMail mail;
  mail.arrived(1, 2, 2, buffer_of(pool, 10, 22));
  mail.arrived(1, 2, 1, buffer_of(pool, 10, 11));
  std::vector<std::byte> memory(10);
  EXPECT_TRUE(mail.expect(transfer_of(1, memory, false)));
  EXPECT_EQ(memory[9], std::byte{11});
  EXPECT_TRUE(mail.expect(transfer_of(2, memory, false)));
  EXPECT_EQ(memory[9], std::byte{22});
}

TEST(TcpMail, WhatIsExpectedGoesStraightToItsPlace) {
  TcpMail mail;
  std::vector<std::byte> memory(100);
  const auto transfer = transfer_of(1, memory, false);
  EXPECT_FALSE(mail.expect(transfer));
  EXPECT_TRUE(mail.place(1, 2, 2, 100).empty());
  EXPECT_TRUE(mail.place(1, 3, 1, 100).empty());
  EXPECT_EQ(mail.place(1, 2, 1, 100).data(), memory.data());
  mail.arrived(1, 2, 1, Buffer());
  EXPECT_TRUE(transfer->done);
}

TEST(TcpMail, WhatDoesNotFitIsRefused) {
  BufferPool pool;
  TcpMail mail;
  std::vector<std::byte> small(10), large(kEagerBytes + 10);
  mail.expect(transfer_of(1, small, false));
  EXPECT_THROW(mail.place(1, 2, 1, 11), InvalidArgument);
  EXPECT_EQ(mail.place(1, 2, 1, 9).size(), 9u);  // a word may be shorter
  mail.expect(transfer_of(2, large, false));
  EXPECT_THROW(mail.place(1, 2, 2, large.size() - 1), InvalidArgument);
}

TEST(TcpMail, LargeTransfersWaitForTheirReceiver) {
  TcpMail mail;
  std::vector<std::byte> memory(10);
  const auto first = transfer_of(1, memory, true),
             second = transfer_of(2, memory, true);
  EXPECT_FALSE(mail.may_send(first));
  EXPECT_EQ(mail.ready(1, 2, 1), first);
  EXPECT_EQ(mail.ready(1, 2, 2), nullptr);
  EXPECT_TRUE(mail.may_send(second));
}

TEST(TcpMail, WithdrawingTellsWhoseMemoryIsTouched) {
  TcpMail mail;
  std::vector<std::byte> memory(10);
  const auto quiet = transfer_of(1, memory, false),
             busy = transfer_of(2, memory, false);
  mail.expect(quiet);
  mail.expect(busy);
  mail.place(1, 2, 2, 10);
  const TcpTransferPtr both[] = {quiet, busy};
  EXPECT_EQ(mail.withdraw(std::span(both).first(1)), std::vector<int>{});
  EXPECT_EQ(mail.withdraw(both), std::vector<int>{2});
  mail.arrived(1, 2, 2, Buffer());  // too late, and harmless
  EXPECT_FALSE(busy->done);
}

// Its acknowledgement and the word that it has left may come over different sessions.
TEST(TcpMail, WhatAReceiverHasAPlaceForMayArriveAfterItHasLeft) {
  TcpMail mail;
  std::vector<std::byte> memory(10);
  const auto going = transfer_of(1, memory, true),
             stalled = transfer_of(2, memory, true);
  mail.ready(1, 2, 1);
  EXPECT_TRUE(mail.may_send(going));
  EXPECT_FALSE(mail.may_send(stalled));
  mail.left(1, 2);
  EXPECT_FALSE(mail.hopeless_locked(*going));
  EXPECT_TRUE(mail.hopeless_locked(*stalled));
  mail.sent(going, false);
  EXPECT_TRUE(mail.hopeless_locked(*going));
}

TEST(TcpMail, AGroupIsForgottenWhenItsLastMemberHasLeft) {
  BufferPool pool;
  TcpMail mail;
  std::vector<std::byte> memory(10);
  mail.expect(transfer_of(1, memory, false));
  mail.left(1, 3);
  EXPECT_EQ(mail.groups(), 1u);
  mail.close_group(1, std::vector{2, 3});
  mail.arrived(1, 2, 1, buffer_of(pool, 10, 11));  // for nobody
  mail.set_credit({1, 2, 0}, {.messages = 1});
  EXPECT_EQ(mail.ready(1, 2, 1), nullptr);
  EXPECT_EQ(mail.groups(), 1u);
  mail.left(1, 2);
  EXPECT_EQ(mail.groups(), 0u);
}

// Words of a member that did not know this rank when it left the group.
TEST(TcpMail, AForgottenGroupDoesNotComeBack) {
  BufferPool pool;
  TcpMail mail(4);
  mail.close_group(1, {});
  EXPECT_EQ(mail.groups(), 0u);
  mail.left(1, 2);
  EXPECT_EQ(mail.groups(), 0u);
  mail.arrived(1, 2, 1, buffer_of(pool, 10, 11));
  EXPECT_TRUE(mail.place(1, 2, 2, 10).empty());
  EXPECT_EQ(mail.ready(1, 2, 1), nullptr);
  mail.deliver({1, 2, 5}, buffer_of(pool, 10, 11));
  mail.set_credit({1, 2, 5}, {.messages = 1});
  mail.close_channel({1, 2, 5}, 3);
  EXPECT_EQ(mail.groups(), 0u);
  mail.left(5, 2);  // of one that this rank may yet join
  EXPECT_EQ(mail.groups(), 1u);
}

TEST(TcpMail, AGroupIsKeptForALargeMessageThatComesLast) {
  BufferPool pool;
  TcpMail mail;
  mail.close_group(1, std::vector{2});
  mail.close_channel({1, 2, 5}, 1);
  mail.left(1, 2);
  EXPECT_EQ(mail.groups(), 1u);
  mail.deliver({1, 2, 5}, buffer_of(pool, 10, 11));
  EXPECT_EQ(mail.groups(), 0u);
}

TEST(TcpMail, WhoHasLeftTheWorldHasLeftEveryGroup) {
  TcpMail mail;
  mail.close_group(1, std::vector{2});
  mail.close_group(4, std::vector{2, 3});
  mail.close_channel({1, 2, 5}, 1);  // what was on its way never comes
  mail.rank_left(2);
  EXPECT_EQ(mail.groups(), 1u);
  mail.close_group(5, std::vector{2});
  mail.rank_left(3);
  EXPECT_EQ(mail.groups(), 0u);
}

TEST(TcpMail, LastWordsAreWaitedFor) {
  TcpMail mail;
  const std::vector<int> two{2};
  mail.telling(2);
  mail.telling(2);
  mail.telling(3);
  std::thread other([&mail] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    mail.told(2);
    mail.told(2);
  });
  const auto start = std::chrono::steady_clock::now();
  mail.await_told(two, std::chrono::seconds(10));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  other.join();
  mail.await_told(std::vector{3}, std::chrono::milliseconds(10));  // not for ever
  mail.told_by(3);
  mail.await_told(std::vector{3}, std::chrono::seconds(10));  // it has its own reason
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(TcpMail, TheFirstFailureCounts) {
  TcpMail mail;
  mail.check();
  EXPECT_TRUE(mail.fail({.origin = 3, .why = "first"}));
  EXPECT_FALSE(mail.fail({.origin = 1, .why = "second"}));
  try {
    mail.check();
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 3);
  }
}

TEST(TcpMail, TheFirstReasonToStayAwayCounts) {
  TcpMail mail;
  mail.check_absence();
  EXPECT_TRUE(mail.note_absence({.origin = 3, .why = "first"}));
  EXPECT_FALSE(mail.note_absence({.origin = 1, .why = "second"}));
  mail.check();  // it is no failure of this world
  try {
    mail.check_absence();
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 3);
    EXPECT_STREQ(error.what(), "first");
  }
}

}  // namespace
}  // namespace trireme::comm
