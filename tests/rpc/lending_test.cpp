#include "trireme/rpc/lending.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "../net/two_nodes.h"
#include "file_memory.h"
#include "trireme/core/error.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {
namespace {

Part lending_part(std::size_t bytes, char fill) {
  auto kept = std::make_shared<std::string>(bytes, fill);
  return {std::as_writable_bytes(std::span(*kept)), kept};
}

const ProcessPlace& here() {
  static const ProcessPlace place = ProcessPlace::of_this_process();
  return place;
}

// A lender whose offer was taken, and who borrows from it over a real session.
struct Loans {
  explicit Loans(std::uint64_t bytes) : lender(bytes) {
    nodes.at_server.on_message = [this](const net::Peer&, net::InMessage message) {
      ASSERT_EQ(message.envelope.type, static_cast<std::uint16_t>(WireKind::Return));
      const auto offsets = decode_returns(message.envelope.header);
      lender.returned(offsets);
    };
    borrower = std::make_shared<Borrower>(nodes.connect());
    EXPECT_EQ(lender.lend(lending_part(1, 'x')), std::nullopt);
    const auto offer = lender.take_offer();
    EXPECT_TRUE(offer && borrower->accept(*offer, here()));
    EXPECT_EQ(lender.take_offer(), std::nullopt);
    EXPECT_EQ(lender.lend(lending_part(1, 'x')), std::nullopt);
    lender.answered(true);
  }
  bool all_returned() {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (lender.lent_bytes() > 0 && !deadline.expired())
      std::this_thread::yield();
    return lender.lent_bytes() == 0;
  }

  Lender lender;
  net::TwoNodes nodes;
  std::shared_ptr<Borrower> borrower;
};

std::string lending_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no refusal";
}

void expect_lending_refused(
    const std::function<void()>& call, const std::string& part) {
  const std::string what = lending_refusal(call);
  EXPECT_NE(what.find(part), std::string::npos) << what;
}

}  // namespace

TEST(Lending, PartsAreSeenAndComeBack) {
  Loans loans(1 << 20);
  const auto offset = loans.lender.lend(lending_part(5000, 'a'));
  ASSERT_TRUE(offset);
  EXPECT_EQ(loans.lender.lent_bytes(), 8192u);
  Part part = loans.borrower->borrow(*offset, 5000);
  EXPECT_EQ(part.bytes.size(), 5000u);
  EXPECT_EQ(part.bytes[0], std::byte{'a'});
  EXPECT_EQ(part.bytes[4999], std::byte{'a'});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.bytes.data()) % 64, 0u);
  const auto copy = part.keep;
  part = {};
  EXPECT_EQ(loans.lender.lent_bytes(), 8192u);
  EXPECT_NE(loans.lender.lend(lending_part(5000, 'b')), offset);
}

TEST(LendingRanks, ManyThreadsMayLetGo) {
  Loans loans(std::uint64_t{64} << 20);
  std::vector<Part> parts;
  for (int i = 0; i < 4000; ++i)
    parts.push_back(
        loans.borrower->borrow(*loans.lender.lend(lending_part(100, 'a')), 100));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&parts, t] {
      for (std::size_t i = t; i < parts.size(); i += 4)
        parts[i] = {};
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_TRUE(loans.all_returned());
  EXPECT_EQ(loans.lender.lend(lending_part(1, 'a')), 0u);
}

TEST(Lending, WithoutRoomNothingIsLent) {
  Loans loans(8192);
  EXPECT_EQ(loans.lender.lend(lending_part(8193, 'a')), std::nullopt);
  Part part = loans.borrower->borrow(*loans.lender.lend(lending_part(8192, 'a')), 8192);
  EXPECT_EQ(loans.lender.lend(lending_part(1, 'a')), std::nullopt);
  part = {};
  EXPECT_TRUE(loans.all_returned());
  EXPECT_EQ(loans.lender.lend(lending_part(1, 'a')), 0u);
}

TEST(Lending, WhatIsDeclinedIsNotTriedAgain) {
  Lender lender(1 << 20);
  EXPECT_EQ(lender.lend(lending_part(1, 'a')), std::nullopt);
  EXPECT_TRUE(lender.take_offer());
  lender.answered(false);
  EXPECT_EQ(lender.lend(lending_part(1, 'a')), std::nullopt);
  EXPECT_EQ(lender.take_offer(), std::nullopt);
}

TEST(Lending, AnOfferThatCannotBeOpenedIsDeclined) {
  Lender lender(1 << 20);
  lender.lend(lending_part(1, 'a'));
  ArenaOffer offer = *lender.take_offer();
  offer.inode += 1;
  const auto borrower = std::make_shared<Borrower>(net::Peer());
  EXPECT_FALSE(borrower->accept(offer, here()));
  expect_lending_refused([&] { borrower->borrow(0, 1); }, "lies in 0 bytes");
}

TEST(Lending, PartsOutliveTheLender) {
  auto loans = std::make_unique<Loans>(1 << 20);
  Part part = loans->borrower->borrow(*loans->lender.lend(lending_part(10, 'a')), 10);
  loans.reset();
  EXPECT_EQ(part.bytes[9], std::byte{'a'});
  part = {};  // nobody is there to be told, and that is no error
}

TEST(Lending, UnusedMemoryGoesBackToTheSystem) {
  Loans loans(1 << 20);
  const auto offset = loans.lender.lend(lending_part(10, 'a'));
  EXPECT_TRUE(loans.lender.returned({*offset}));
  EXPECT_TRUE(loans.lender.trim());   // it was used since the last look
  EXPECT_FALSE(loans.lender.trim());  // and not since this one
  // The memory is new when it is used again.
  const Part part = loans.borrower->borrow(*offset, 10);
  EXPECT_EQ(part.bytes[0], std::byte{0});
  EXPECT_TRUE(loans.lender.lend(lending_part(10, 'b')));
  EXPECT_EQ(part.bytes[0], std::byte{'b'});
}

TEST(Lending, OneThatIsKeptHoldsNoOtherMemory) {
  Lender lender(1 << 24);
  lender.lend(lending_part(1, 'x'));
  const ArenaOffer offer = *lender.take_offer();
  lender.answered(true);
  const auto first = lender.lend(lending_part(1 << 20, 'a'));
  const auto kept = lender.lend(lending_part(4096, 'b'));
  const auto last = lender.lend(lending_part(1 << 20, 'c'));
  EXPECT_TRUE(lender.returned({*first, *last}));
  EXPECT_TRUE(lender.trim());
  EXPECT_EQ(memory_of(offer.descriptor), (2 << 20) + 4096) << "it was used just now";
  EXPECT_FALSE(lender.trim());
  EXPECT_EQ(memory_of(offer.descriptor), 4096);
  const auto seen = Arena::open(offer, here());
  EXPECT_EQ(seen->bytes()[*kept + 4095], std::byte{'b'});
  // What lies below and above it is used again, and goes again, with it at last.
  EXPECT_EQ(lender.lend(lending_part(1 << 20, 'd')), first);
  EXPECT_EQ(lender.lend(lending_part(1 << 20, 'e')), last);
  EXPECT_EQ(seen->bytes()[*kept], std::byte{'b'});
  EXPECT_EQ(seen->bytes()[*last], std::byte{'e'});
  EXPECT_TRUE(lender.returned({*first, *last, *kept}));
  EXPECT_TRUE(lender.trim());
  EXPECT_FALSE(lender.trim());
  EXPECT_EQ(memory_of(offer.descriptor), 0);
}

TEST(Lending, AnEmptyPartIsNotLent) {
  Loans loans(8192);
  EXPECT_EQ(loans.lender.lend({}), std::nullopt);
  EXPECT_EQ(loans.lender.lent_bytes(), 0u);
}

TEST(Lending, WhatNoWorkerWouldSayIsRefused) {
  Loans loans(8192);
  const auto borrow = [&](std::uint64_t offset, std::uint64_t bytes) {
    return [&loans, offset, bytes] { loans.borrower->borrow(offset, bytes); };
  };
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 8193},
        {4096, 4097},
        {12288, 0},
        {0, 0},
        {1, 1},
        {~std::uint64_t{0} - 4095, 8192},
        {4096, ~std::uint64_t{0}}})
    expect_lending_refused(borrow(offset, bytes), "lies in 8192 bytes");
  expect_lending_refused([&] { loans.lender.returned({0}); }, "to be given back");
  loans.lender.lend(lending_part(5000, 'a'));
  expect_lending_refused([&] { loans.lender.returned({4096}); }, "got the place 4096");
  expect_lending_refused([&] { loans.lender.answered(true); }, "without an offer");
  expect_lending_refused([&] { loans.borrower->accept({}, here()); }, "got a second");
  Lender fresh(1 << 20);
  expect_lending_refused([&] { fresh.answered(true); }, "without an offer");
  const auto nothing = std::make_shared<Borrower>(net::Peer());
  expect_lending_refused([&] { nothing->borrow(0, 1); }, "lies in 0 bytes");
  expect_lending_refused([&] { nothing->borrow(0, 0); }, "lies in 0 bytes");
}

TEST(Lending, MessagesGoThroughBytes) {
  EXPECT_EQ(
      decode_returns(encode_returns({1, ~std::uint64_t{0}})),
      (std::vector<std::uint64_t>{1, ~std::uint64_t{0}}));
  EXPECT_THROW(decode_returns("1234567"), InvalidArgument);
  const ArenaOffer offer{.descriptor = 1, .device = 2, .inode = 3, .bytes = 4};
  EXPECT_EQ(decode_offer(encode_offer(offer)), offer);
  EXPECT_THROW(decode_offer(encode_offer(offer) + "x"), InvalidArgument);
  EXPECT_THROW(decode_offer("x"), InvalidArgument);
  EXPECT_TRUE(decode_answer(encode_answer(true)));
  EXPECT_FALSE(decode_answer(encode_answer(false)));
  EXPECT_THROW(decode_answer(""), InvalidArgument);
  EXPECT_THROW(decode_answer("\x02"), InvalidArgument);
}

}  // namespace trireme::rpc
