#include "trireme/rpc/protocol_messages.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {

namespace {

constexpr std::uint32_t kNoTimeout = 0xffffffff;
constexpr std::size_t kMarkBytes = 4 + 8 + 4 + 1 + 8;

void write_id(const ObjectId& id, net::ByteWriter& writer) {
  writer.u32(static_cast<std::uint32_t>(id.creator)).u64(id.number);
}

ObjectId read_id(net::ByteReader& bytes) {
  ObjectId id;
  id.creator = static_cast<WorkerId>(bytes.u32());
  id.number = bytes.u64();
  return id;
}

[[noreturn]] void refuse(const char* expected, std::uint64_t got) {
  throw InvalidArgument(text(
      "[rpc] expected ",
      expected,
      " in a worker's message, got ",
      got,
      "; do not speak to workers with other programs"));
}

}  // namespace

std::chrono::milliseconds time_left(Time deadline, Time now) {
  using std::chrono::milliseconds;
  if (deadline == Time::max())
    return milliseconds(kNoTimeout);
  const auto left = std::chrono::ceil<milliseconds>(deadline - now);
  return std::clamp(left, milliseconds(1), milliseconds(kNoTimeout - 1));
}

Time deadline_after(std::chrono::milliseconds timeout, Time now) {
  return timeout.count() == kNoTimeout ? Time::max() : now + timeout;
}

std::string write_request_head(const RequestHead& head) {
  net::ByteWriter writer;
  writer.u64(head.call).u32(static_cast<std::uint32_t>(head.timeout.count()));
  write_id(head.creates, writer);
  return writer.take();
}

std::string write_response_head(const ResponseHead& head) {
  return net::ByteWriter()
      .u64(head.call)
      .u8(static_cast<std::uint8_t>(head.status))
      .take();
}

std::size_t marks_bytes(std::size_t count) {
  return 4 + kMarkBytes * count;
}

void append_marks(const std::vector<TravelMark>& marks, std::string& body) {
  net::ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(marks.size()));
  for (const TravelMark& mark : marks) {
    write_id(mark.id, writer);
    writer.u32(static_cast<std::uint32_t>(mark.owner))
        .u8(static_cast<std::uint8_t>(mark.passage))
        .u64(mark.number);
  }
  body += writer.bytes();
}

std::size_t bytes_beside_tensors(const Payload& payload) {
  return payload.bytes.size() + marks_bytes(payload.references.size());
}

std::uint64_t bytes_of(const Payload& payload) {
  std::uint64_t bytes = bytes_beside_tensors(payload);
  for (const Part& part : payload.parts)
    bytes += kPartCost + part.bytes.size();
  return bytes;
}

std::string write_call(std::uint64_t call) {
  return net::ByteWriter().u64(call).take();
}

std::uint64_t read_call(const std::string& body) {
  net::ByteReader bytes(body, "a worker's message");
  const std::uint64_t call = bytes.u64();
  bytes.expect_end();
  return call;
}

Message write_note(const Posting& note) {
  net::ByteWriter writer;
  write_id(note.id, writer);
  writer.u64(note.number);
  return {
      .kind = static_cast<std::uint8_t>(note.note), .body = writer.take(), .parts = {}};
}

Posting read_note(const Message& message) {
  if (message.kind < static_cast<std::uint8_t>(Note::Add) ||
      message.kind > static_cast<std::uint8_t>(Note::Created))
    refuse("a kind of message", message.kind);
  net::ByteReader bytes(message.body, "a worker's note");
  Posting note{.note = static_cast<Note>(message.kind)};
  note.id = read_id(bytes);
  note.number = bytes.u64();
  bytes.expect_end();
  return note;
}

RequestHead MessageReader::request_head() {
  RequestHead head;
  head.call = bytes_.u64();
  head.timeout = std::chrono::milliseconds(bytes_.u32());
  head.creates = read_id(bytes_);
  return head;
}

ResponseHead MessageReader::response_head() {
  ResponseHead head;
  head.call = bytes_.u64();
  const std::uint8_t status = bytes_.u8();
  if (status > static_cast<std::uint8_t>(Status::Full))
    refuse("how a call ended", status);
  head.status = static_cast<Status>(status);
  return head;
}

std::vector<TravelMark> MessageReader::marks(std::size_t world_size) {
  const std::uint32_t count = bytes_.u32();
  if (count > bytes_.left() / kMarkBytes)
    refuse("as many references as there are bytes for", count);
  std::vector<TravelMark> marks(count);
  for (TravelMark& mark : marks) {
    mark.id = read_id(bytes_);
    const std::uint32_t owner = bytes_.u32();
    const std::uint8_t passage = bytes_.u8();
    if (owner >= world_size)
      refuse("a worker of this world", owner);
    if (passage > static_cast<std::uint8_t>(Passage::Lost))
      refuse("a way for a reference", passage);
    mark.owner = static_cast<WorkerId>(owner);
    mark.passage = static_cast<Passage>(passage);
    mark.number = bytes_.u64();
  }
  return marks;
}

std::string MessageReader::take_rest() {
  return std::move(body_.erase(0, body_.size() - bytes_.left()));
}

}  // namespace trireme::rpc
