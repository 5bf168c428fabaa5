#include "trireme/net/store_protocol.h"

#include <chrono>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"
#include "trireme/net/store.h"

namespace trireme::net {
namespace {

constexpr const char* kRequest = "a request to the store";
constexpr const char* kReply = "a reply of the store";
// Stands first in every header, so that none is empty: an empty message would be small,
// and overtake others.
constexpr std::uint8_t kProtocolVersion = 1;
// Texts of errors are a few hundred bytes; this is what a reader puts up with.
constexpr std::size_t kTextBytes = std::size_t{16} << 10;
// The names of a wait, or of a page of keys.
constexpr std::size_t kNamesBytes = kStoreWaitBytes;

StoreValue encode_names(const std::vector<std::string>& names) {
  ByteWriter writer;
  for (const std::string& name : names)
    writer.string(name);
  return std::make_shared<const std::string>(writer.take());
}

std::vector<std::string> decode_names(std::string_view blob, const char* what) {
  std::vector<std::string> names;
  ByteReader reader(blob, what);
  while (reader.left() > 0)
    names.push_back(reader.string(kStoreKeyBytes));
  return names;
}

/// The parts of a body, whose sizes stand at the end of the header.
class BlobReader {
 public:
  BlobReader(std::string_view body, const char* what) : body_(body), what_(what) {}

  std::string_view take(ByteReader& header, std::size_t limit) {
    const std::size_t size = header.u32();
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (size > limit || size > body_.size())
      throw InvalidArgument(text(
          "[net] expected a part of at most ",
          std::min(limit, body_.size()),
          " bytes in the body of ",
          what_,
          ", got ",
          size,
          "; the bytes are damaged, or of another version"));
#endif
    const std::string_view part(body_.data(), size);
    body_ = std::string_view(body_.data() + size, body_.size() - size);
    return part;
  }

  void expect_end() const {
    if (!body_.empty())
      throw InvalidArgument(text(
          "[net] expected the end of the body of ",
          what_,
          ", got ",
          body_.size(),
          " bytes more; the bytes are damaged, or of another version"));
  }

 private:
  std::string_view body_;
  const char* what_;
};

void read_version(ByteReader& header, const char* what) {
  const int version = header.u8();
  if (version != kProtocolVersion)
    throw InvalidArgument(text(
        "[net] expected ",
        what,
        " of version ",
        int{kProtocolVersion},
        ", got version ",
        version,
        "; use the same version of Trireme everywhere"));
}

StoreValue read_value(ByteReader& header, BlobReader& body) {
  return store_value(body.take(header, kStoreValueBytes));
}

void read_fields(StoreRequest& request, ByteReader& header, BlobReader& body) {
  switch (request.op) {
    case StoreOp::Set:
      request.key = header.string(kStoreKeyBytes);
      request.value = read_value(header, body);
      return;
    case StoreOp::Get:
    case StoreOp::TryGet:
    case StoreOp::Erase:
    case StoreOp::Watch:
      request.key = header.string(kStoreKeyBytes);
      return;
    case StoreOp::Add:
      request.key = header.string(kStoreKeyBytes);
      request.delta = header.i64();
      return;
    case StoreOp::CompareSet:
      request.key = header.string(kStoreKeyBytes);
      if (header.flag())
        request.expected = read_value(header, body);
      request.value = read_value(header, body);
      return;
    case StoreOp::Wait:
      request.keys = decode_names(body.take(header, kNamesBytes), kRequest);
      return;
    case StoreOp::Keys:
      request.key = header.string(kStoreKeyBytes);
      if (header.flag())
        request.keys.push_back(header.string(kStoreKeyBytes));
      return;
    case StoreOp::Unwatch:
    case StoreOp::Cancel:
      request.target = header.u64();
      return;
  }
  throw InvalidArgument(text(
      "[net] expected the number of an operation of the store, got ",
      static_cast<int>(request.op),
      "; use the same version of Trireme everywhere"));
}

void read_fields(StoreReply& reply, ByteReader& header, BlobReader& body) {
  switch (reply.kind) {
    case StoreAnswer::Done:
    case StoreAnswer::Lost:
      return;
    case StoreAnswer::Value:
      reply.yes = header.flag();
      if (header.flag())
        reply.value = read_value(header, body);
      return;
    case StoreAnswer::Number:
      reply.number = header.i64();
      return;
    case StoreAnswer::Erased:
      reply.yes = header.flag();
      reply.text = header.string(kStoreKeyBytes);
      return;
    case StoreAnswer::Names:
    case StoreAnswer::Missing:
      reply.yes = header.flag();
      reply.names = decode_names(body.take(header, kNamesBytes), kReply);
      return;
    case StoreAnswer::Refused:
      reply.text = header.string(kTextBytes);
      return;
    case StoreAnswer::Changed:
      reply.text = header.string(kStoreKeyBytes);
      reply.value = read_value(header, body);
      return;
  }
  throw InvalidArgument(text(
      "[net] expected the number of an answer of the store, got ",
      static_cast<int>(reply.kind),
      "; use the same version of Trireme everywhere"));
}

/// Writes a message; the counterpart of ByteReader and BlobReader together.
class MessageWriter {
 public:
  explicit MessageWriter(std::uint16_t type) {
    message_.type = type;
    header_.u8(kProtocolVersion);
  }

  MessageWriter& key(std::string_view key) {
    header_.string(key);
    return *this;
  }
  MessageWriter& flag(bool flag) {
    header_.flag(flag);
    return *this;
  }
  MessageWriter& number(std::int64_t number) {
    header_.i64(number);
    return *this;
  }
  MessageWriter& blob(StoreValue value) {
    header_.u32(static_cast<std::uint32_t>(value->size()));
    message_.blobs.push_back(std::move(value));
    return *this;
  }
  StoreMessage take() {
    message_.header = header_.take();
    return std::move(message_);
  }

 private:
  ByteWriter header_;
  StoreMessage message_;
};

}  // namespace

StoreMessage encode(const StoreRequest& request) {
  MessageWriter writer(static_cast<std::uint16_t>(request.op));
  switch (request.op) {
    case StoreOp::Set:
      return writer.key(request.key).blob(request.value).take();
    case StoreOp::Get:
    case StoreOp::TryGet:
    case StoreOp::Erase:
    case StoreOp::Watch:
      return writer.key(request.key).take();
    case StoreOp::Add:
      return writer.key(request.key).number(request.delta).take();
    case StoreOp::CompareSet:
      writer.key(request.key).flag(request.expected != nullptr);
      if (request.expected)
        writer.blob(request.expected);
      return writer.blob(request.value).take();
    case StoreOp::Wait:
      return writer.blob(encode_names(request.keys)).take();
    case StoreOp::Keys:
      writer.key(request.key).flag(!request.keys.empty());
      if (!request.keys.empty())
        writer.key(request.keys.front());
      return writer.take();
    case StoreOp::Unwatch:
    case StoreOp::Cancel:
      return writer.number(static_cast<std::int64_t>(request.target)).take();
  }
  TRIREME_ASSERT(false && "all operations are above");
  return {};
}

StoreMessage encode(const StoreReply& reply) {
  MessageWriter writer(static_cast<std::uint16_t>(reply.kind));
  switch (reply.kind) {
    case StoreAnswer::Done:
    case StoreAnswer::Lost:
      return writer.take();
    case StoreAnswer::Value:
      writer.flag(reply.yes).flag(reply.value != nullptr);
      return reply.value ? writer.blob(reply.value).take() : writer.take();
    case StoreAnswer::Number:
      return writer.number(reply.number).take();
    case StoreAnswer::Erased:
      return writer.flag(reply.yes).key(reply.text).take();
    case StoreAnswer::Names:
    case StoreAnswer::Missing:
      return writer.flag(reply.yes).blob(encode_names(reply.names)).take();
    case StoreAnswer::Refused:
      return writer.key(reply.text.substr(0, kTextBytes)).take();
    case StoreAnswer::Changed:
      return writer.key(reply.text).blob(reply.value).take();
  }
  TRIREME_ASSERT(false && "all answers are above");
  return {};
}

StoreRequest decode_store_request(
    std::uint16_t type, std::string_view header, std::string_view body) {
  StoreRequest request{.op = static_cast<StoreOp>(type)};
  ByteReader fields(header, kRequest);
  BlobReader blobs(body, kRequest);
  read_version(fields, kRequest);
  read_fields(request, fields, blobs);
  fields.expect_end();
  blobs.expect_end();
  return request;
}

StoreReply decode_store_reply(
    std::uint16_t type, std::string_view header, std::string_view body) {
  StoreReply reply{.kind = static_cast<StoreAnswer>(type)};
  ByteReader fields(header, kReply);
  BlobReader blobs(body, kReply);
  read_version(fields, kReply);
  read_fields(reply, fields, blobs);
  fields.expect_end();
  blobs.expect_end();
  return reply;
}

OutMessage store_out_message(
    StoreMessage message, std::uint64_t request, std::chrono::milliseconds timeout) {
  OutMessage out;
  out.envelope = {
      .type = message.type,
      .request = request,
      .timeout = timeout,
      .header = std::move(message.header)};
  auto blobs =
      std::make_shared<const std::vector<StoreValue>>(std::move(message.blobs));
  for (const StoreValue& blob : *blobs)
    out.body.push_back(std::as_bytes(std::span(*blob)));
  out.keep = std::move(blobs);
  return out;
}

Limits store_node_limits() {
  // The largest is a compare_set with two values.
  constexpr std::size_t kMost = 2 * kStoreValueBytes;
  Limits limits;
  limits.body_bytes = kMost;
  limits.small_bytes = 0;
  limits.large_window = 4 * kMost;
  return limits;
}

}  // namespace trireme::net
