#include "trireme/rpc/lending.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/net/bytes.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {
namespace {

constexpr std::size_t kMostReturns = 4096;  // in one message

}  // namespace

// -- the lender

std::optional<std::uint64_t> Lender::lend(const Part& part) {
  const State state = state_;
  if (state == State::Offered || state == State::Declined || part.bytes.empty())
    return std::nullopt;
  const auto offset = take(part.bytes.size());
  if (offset)
    std::memcpy(arena_->bytes().data() + *offset, part.bytes.data(), part.bytes.size());
  return offset;
}

std::optional<std::uint64_t> Lender::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::New) {
    try {
      arena_ = Arena::make(bytes_);
      blocks_ = ArenaBlocks(bytes_);
      offer_due_ = true;
      state_ = State::Offered;
    } catch (const Error& error) {
      TRIREME_LOG(info, "rpc") << error.what();
      state_ = State::Declined;
    }
  }
  if (state_ != State::Accepted)
    return std::nullopt;
  const auto offset = blocks_.take(bytes);
  if (!offset)
    return std::nullopt;
  const std::uint64_t end = *offset + bytes;
  if (end > reserved_) {
    if (!arena_->reserve(reserved_, end - reserved_)) {
      blocks_.give_back(*offset);
      release_free();
      return std::nullopt;
    }
    reserved_ = end;
  }
  ++uses_;
  return offset;
}

std::optional<ArenaOffer> Lender::take_offer() {
  if (state_ != State::Offered)
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(offer_due_, false))
    return std::nullopt;
  return arena_->offer();
}

void Lender::answered(bool accepted) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::Offered || offer_due_)
    throw InvalidArgument(
        "[rpc] expected an answer to an offer of shared memory, got one without an "
        "offer; run the same release of Trireme on all workers");
  state_ = accepted ? State::Accepted : State::Declined;
  if (!accepted)
    arena_.reset();
}

bool Lender::returned(const std::vector<std::uint64_t>& offsets) {
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t offset : offsets)
    if (!blocks_.give_back(offset))
      throw InvalidArgument(text(
          "[rpc] expected a part that was lent to be given back, got the place ",
          offset,
          "; run the same release of Trireme on all workers"));
  return !std::exchange(trim_armed_, true);
}

bool Lender::trim() {
  const std::lock_guard lock(mutex_);
  const bool used = uses_ != uses_before_;
  uses_before_ = uses_;
  if (!used && arena_)
    release_free();
  trim_armed_ = used;
  return used;
}

// What somebody keeps stays, and holds nothing else.
void Lender::release_free() {
  for (const auto& [offset, bytes] : blocks_.free())
    arena_->release(offset, bytes);
  if (!blocks_.free().empty())
    reserved_ = std::min(reserved_, blocks_.free().begin()->first);
}

std::uint64_t Lender::lent_bytes() const {
  const std::lock_guard lock(mutex_);
  return blocks_.taken_bytes();
}

// -- the borrower

/// What a borrowed part holds: gives the block back when it goes.
struct Borrower::Loan {
  Loan(std::shared_ptr<Borrower> its_borrower, std::uint64_t its_offset)
      : borrower(std::move(its_borrower)), offset(its_offset) {}
  ~Loan() { borrower->let_go(offset); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  std::shared_ptr<Borrower> borrower;
  std::uint64_t offset;
};

bool Borrower::accept(const ArenaOffer& offer, const ProcessPlace& maker) {
  const std::lock_guard lock(mutex_);
  if (arena_)
    throw InvalidArgument(
        "[rpc] expected one offer of shared memory in a session, got a second; run the "
        "same release of Trireme on all workers");
  try {
    arena_ = Arena::open(offer, maker);
    return true;
  } catch (const Error& error) {
    TRIREME_LOG(info, "rpc") << error.what();
    return false;
  }
}

Part Borrower::borrow(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = arena_ ? arena_->bytes().size() : 0;
  if (bytes == 0 || offset > size || bytes > size - offset ||
      offset % ArenaBlocks::kBlock != 0)
    throw InvalidArgument(text(
        "[rpc] expected a part that lies in ",
        size,
        " bytes of shared memory, got one of ",
        bytes,
        " at ",
        offset,
        "; run the same release of Trireme on all workers"));
  return {
      arena_->bytes().subspan(
          static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)),
      std::make_shared<const Loan>(shared_from_this(), offset)};
}

// Who tells the other side takes along what others let go of meanwhile.
void Borrower::let_go(std::uint64_t offset) {
  std::unique_lock lock(mutex_);
  let_go_.push_back(offset);
  if (std::exchange(telling_, true))
    return;
  while (!let_go_.empty()) {
    const std::size_t count = std::min(let_go_.size(), kMostReturns);
    const auto end = let_go_.end();
    const std::vector<std::uint64_t> some(
        end - static_cast<std::ptrdiff_t>(count), end);
    let_go_.resize(let_go_.size() - count);
    lock.unlock();
    peer_.send(
        {.envelope = {
             .type = static_cast<std::uint16_t>(WireKind::Return),
             .header = encode_returns(some)}});
    lock.lock();
  }
  telling_ = false;
}

// -- their messages

std::string encode_returns(const std::vector<std::uint64_t>& offsets) {
  net::ByteWriter out;
  for (const std::uint64_t offset : offsets)
    out.u64(offset);
  return out.take();
}

std::vector<std::uint64_t> decode_returns(const std::string& header) {
  net::ByteReader in(header, "parts that were given back");
  std::vector<std::uint64_t> offsets;
  offsets.reserve(header.size() / 8);
  while (in.left() > 0)
    offsets.push_back(in.u64());
  return offsets;
}

std::string encode_offer(const ArenaOffer& offer) {
  net::ByteWriter out;
  write_offer(out, offer);
  return out.take();
}

ArenaOffer decode_offer(const std::string& header) {
  net::ByteReader in(header, "an offer of shared memory");
  const ArenaOffer offer = read_offer(in);
  in.expect_end();
  return offer;
}

std::string encode_answer(bool accepted) {
  return net::ByteWriter().flag(accepted).take();
}

bool decode_answer(const std::string& header) {
  net::ByteReader in(header, "an answer to an offer");
  const bool accepted = in.flag();
  in.expect_end();
  return accepted;
}

}  // namespace trireme::rpc
