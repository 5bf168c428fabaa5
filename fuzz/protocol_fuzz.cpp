// Any bytes as what two workers say to a third one that has calls and references with
// both: what no worker would say ends all with its sender, and when both are gone
// nothing of theirs is left, whatever they said.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/core/log.h"
#include "trireme/net/bytes.h"
#include "trireme/rpc/protocol.h"
#include "trireme/rpc/protocol_messages.h"

namespace {

using namespace trireme;
using namespace trireme::rpc;

void must(bool condition) {
  if (!condition)
    __builtin_trap();
}

struct Ended final : Completion {
  void finish(Outcome) override {}
};

// The worker that listens, number 0 of three; its own numbers begin at kFirst.
class Victim {
 public:
  static constexpr std::uint64_t kFirst = 1000;
  Victim() {
    for (WorkerId other = 1; other < 3; ++other) {
      receive(other, hello(other));  // they know each other
      call(other, protocol_.own(cargo()));
      make(other);
    }
  }

  static std::string hello(WorkerId from) {
    return net::ByteWriter()
        .u64(static_cast<std::uint64_t>(from))
        .u64(kFirst)
        .u64(0)
        .flag(false)
        .take();
  }

  void receive(WorkerId from, std::string head) {
    std::byte byte{};
    Packet packet{
        .head = std::move(head), .parts = {{.bytes = {&byte, 1}, .keep = {}}}};
    protocol_.receive(from, std::move(packet), now_);
    settle();
  }

  /// A value that the other shall make; what had come goes back to it.
  void make(WorkerId other) {
    held_.push_back(protocol_.name(other));
    Request request{.creates = held_.back()};
    protocol_.call(other, std::move(request), std::make_unique<Ended>(), now_);
    if (held_.size() > 8)
      held_.erase(held_.begin());
    call(other, held_.front());
  }

  void finish() {
    for (WorkerId other = 1; other < 3; ++other)
      protocol_.gone(other, "the end", now_);
    settle();
    held_.clear();
    settle();
    settle();
    must(protocol_.references().left().empty());
    must(protocol_.references().owned() == 0);
    must(protocol_.references().held() == 0);
    must(protocol_.waiting() == 0 && protocol_.running() == 0);
  }

 private:
  static std::shared_ptr<void> cargo() { return std::make_shared<int>(1); }

  static ProtocolOptions options() {
    return {
        .link = {.lease = std::chrono::milliseconds(1000)},
        .calls_per_worker = 4,
        .make_token = cargo,
        .make_cargo = cargo};
  }

  void call(WorkerId other, const Reference& reference) {
    Request request;
    request.idempotent = true;
    request.payload.references = {reference};
    protocol_.call(other, std::move(request), std::make_unique<Ended>(), now_);
    settle();
  }

  // Answers with what came, and keeps some of it.
  void settle() {
    now_ += std::chrono::milliseconds(30);
    protocol_.tick(now_);
    Effects effects = protocol_.take_effects(now_);
    for (Incoming& incoming : effects.calls) {
      for (const Reference& one : incoming.payload.references)
        held_.push_back(one);
      protocol_.respond(
          incoming, Status::Value, std::exchange(incoming.payload, {}), now_);
    }
    for (auto& [completion, outcome] : effects.finished)
      completion->finish(std::move(outcome));
  }

  Time now_{std::chrono::hours(1)};
  Protocol protocol_{options(), 0, 3, kFirst, std::make_shared<Releases>()};
  std::vector<Reference> held_;
};

// The next piece: a byte for its length, and as many.
std::string_view take_piece(std::string_view& bytes) {
  const std::size_t length = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  const std::string_view piece = bytes.substr(bytes.empty() ? 0 : 1, length);
  bytes.remove_prefix(bytes.empty() ? 0 : 1 + piece.size());
  return piece;
}

}  // namespace

// A line for each refusal would take most of the time.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  set_log_levels({.general = LogLevel::Off});
  return 0;
}

// Steps: a byte of which the lowest bit says who speaks, the next whether what follows
// are the bytes behind the head of a packet, else one message, and the third whether it
// has the packet's part; a byte for the message's kind; the piece.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Victim victim;
  std::uint64_t number[3] = {0, 0, 0};
  while (bytes.size() > 2) {
    const int how = bytes[0];
    const auto kind = static_cast<std::uint8_t>(bytes[1]);
    bytes.remove_prefix(2);
    const std::string piece(take_piece(bytes));
    const WorkerId from = 1 + (how & 1);
    std::string head = Victim::hello(from);
    if ((how & 2) != 0)
      head += piece;
    else
      head += net::ByteWriter()
                  .u64(++number[from])
                  .u8(kind)
                  .u32((how & 4) != 0 ? 1 : 0)
                  .string(piece)
                  .take();
    victim.receive(from, std::move(head));
    victim.make(from);
  }
  victim.finish();
  return 0;
}
