// Any bytes as messages to a store and from it, one after the other: each is refused,
// or means the same when it is written again; and the store keeps to its limits.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/core/error.h"
#include "trireme/net/store_log.h"
#include "trireme/net/store_protocol.h"
#include "trireme/net/store_table.h"

namespace {

using namespace trireme::net;

void must(bool condition) {
  if (!condition)
    std::abort();
}

/// A copy of exactly this size, with its end guarded.
class Exact {
 public:
  explicit Exact(std::string_view bytes)
      : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::memcpy(bytes_.get(), bytes.data(), size_);
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

std::string body_of(const StoreMessage& message) {
  std::string body;
  for (const StoreValue& blob : message.blobs)
    body += *blob;
  return body;
}

struct RawMessage {
  std::uint16_t type = 0;
  std::string_view header;
  std::string_view body;
};

/// The next message: a byte each for its type and the lengths of its header and body.
RawMessage take_message(std::string_view& bytes) {
  const auto byte = [&](std::size_t at) {
    return static_cast<std::uint8_t>(bytes[at]);
  };
  RawMessage raw{.type = byte(0)};
  const std::size_t header = byte(1);
  const std::size_t body = byte(2);
  bytes.remove_prefix(3);
  raw.header = bytes.substr(0, header);
  bytes.remove_prefix(raw.header.size());
  raw.body = bytes.substr(0, body);
  bytes.remove_prefix(raw.body.size());
  return raw;
}

void must_be_same(const StoreMessage& again, const RawMessage& raw) {
  must(again.type == raw.type && again.header == raw.header);
  must(body_of(again) == raw.body);
}

void try_request(const RawMessage& raw, StoreTable& table, std::uint64_t number) {
  const Exact header(raw.header);
  const Exact body(raw.body);
  const StoreRequest request =
      decode_store_request(raw.type, header.view(), body.view());
  must_be_same(encode(request), raw);
  StoreTable::Outputs out;
  const StoreTable::Time now{};
  table.handle({number % 3, number}, request, now, now + std::chrono::hours(1), out);
  for (const StoreOutput& output : out) {
    const StoreMessage reply = encode(output.reply);
    decode_store_reply(reply.type, reply.header, body_of(reply));
  }
}

void try_reply(const RawMessage& raw) {
  const Exact header(raw.header);
  const Exact body(raw.body);
  must_be_same(encode(decode_store_reply(raw.type, header.view(), body.view())), raw);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const StoreLimits limits{.total_bytes = 2000, .waiting_bytes = 2000};
  StoreTable table(limits);
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  std::string_view bytes = all;
  for (std::uint64_t number = 1; bytes.size() >= 3; ++number) {
    const RawMessage raw = take_message(bytes);
    try {
      if (raw.type < 128)
        try_request(raw, table, number);
      else
        try_reply(raw);
    } catch (const trireme::InvalidArgument&) {
    }
    must(table.map().bytes() <= limits.total_bytes);
    must(table.waiting_bytes() <= limits.waiting_bytes);
  }
  for (std::uint64_t client = 0; client < 3; ++client)
    table.forget(client);
  must(table.waits() == 0 && table.watches() == 0 && table.waiting_bytes() == 0);
  try {
    StoreLogParser parser("fuzz");
    parser.feed(all, [](std::string, StoreValue) {});
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
