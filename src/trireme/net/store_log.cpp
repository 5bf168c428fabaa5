#include "trireme/net/store_log.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/bytes.h"
#include "trireme/net/checksum.h"
#include "trireme/net/store.h"

namespace trireme::net {
namespace {

constexpr std::uint64_t kStampMagic = 0x45524f5453525254;  // "TRRSTORE"
constexpr std::uint32_t kStampVersion = 1;

// Length, checksum of the payload, and checksum of these two: without it a flipped bit
// in the length would pass for a record that was cut short, and all behind it for
// nothing.
constexpr std::size_t kRecordHead = 12;
constexpr std::size_t kRecordMost = 1 + 4 + kStoreKeyBytes + 4 + kStoreValueBytes;
constexpr std::uint8_t kRecordSet = 1;
constexpr std::uint8_t kRecordErase = 2;

}  // namespace

std::string encode_store_stamp(std::uint64_t generation) {
  ByteWriter writer;
  writer.u64(kStampMagic).u32(kStampVersion).u64(generation);
  writer.u32(crc32c(writer.bytes()));
  return writer.take();
}

std::uint64_t decode_store_stamp(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kStoreStampBytes)
    throw InvalidArgument(text(
        "[net] expected the file of a store at ",
        in_quotes(path),
        ", got only ",
        bytes.size(),
        " bytes; remove the store and start the job again"));
  ByteReader reader(bytes, "the stamp of a store");
  const std::uint64_t magic = reader.u64();
  const std::uint32_t version = reader.u32();
  const std::uint64_t generation = reader.u64();
  if (magic != kStampMagic)
    throw InvalidArgument(text(
        "[net] expected the file of a store at ",
        in_quotes(path),
        ", got another kind of file; give the store a folder of its own"));
  const bool intact = reader.u32() == crc32c(bytes.substr(0, kStoreStampBytes - 4));
  if (!intact || version != kStampVersion)
    throw InvalidArgument(text(
        "[net] expected a store of version ",
        kStampVersion,
        " at ",
        in_quotes(path),
        ", got ",
        intact ? text("version ", version) : std::string("a wrong checksum"),
        "; remove the store and start the job again"));
  return generation;
}

std::string encode_store_record(std::string_view key, const StoreValue& value) {
  ByteWriter payload;
  payload.u8(value ? kRecordSet : kRecordErase).string(key);
  if (value)
    payload.string(*value);
  ByteWriter record;
  record.u32(static_cast<std::uint32_t>(payload.bytes().size()));
  record.u32(crc32c(payload.bytes()));
  record.u32(crc32c(record.bytes()));
  return record.take() + payload.bytes();
}

void StoreLogParser::feed(std::string_view bytes, const Take& take) {
  rest_ += bytes;
  std::size_t used = 0;
  while (const std::size_t size =
             take_one(std::string_view(rest_).substr(used), take)) {
    used += size;
    good_bytes_ += size;
  }
  rest_.erase(0, used);
}

std::size_t StoreLogParser::take_one(std::string_view bytes, const Take& take) const {
  if (bytes.size() < kRecordHead)
    return 0;
  ByteReader head(bytes.substr(0, kRecordHead), "the log of a store");
  const std::size_t size = head.u32();
  const std::uint32_t checksum = head.u32();
  if (head.u32() != crc32c(bytes.substr(0, kRecordHead - 4)))
    refuse("a wrong checksum of its head");
  if (size > kRecordMost)
    refuse("one above the limit");
  if (bytes.size() < kRecordHead + size)
    return 0;
  const std::string_view payload = bytes.substr(kRecordHead, size);
  if (crc32c(payload) != checksum)
    refuse("a wrong checksum");
  ByteReader reader(payload, "the log of a store");
  const std::uint8_t kind = reader.u8();
  std::string key = reader.string(kStoreKeyBytes);
  if (kind != kRecordSet && kind != kRecordErase)
    refuse("an unknown kind of change");
  StoreValue value =
      kind == kRecordSet ? store_value(reader.view(kStoreValueBytes)) : nullptr;
  reader.expect_end();
  take(std::move(key), std::move(value));
  return kRecordHead + size;
}

void StoreLogParser::refuse(const char* what) const {
  throw InvalidArgument(text(
      "[net] expected an intact record at byte ",
      good_bytes_,
      " of ",
      in_quotes(path_),
      ", got ",
      what,
      "; the file is damaged: remove the store and start the job again"));
}

}  // namespace trireme::net
