// The bytes of a file store: one log to which changes are appended. No I/O here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trireme/net/store_request.h"

namespace trireme::net {

/// What stands at the start of a store's files: magic, version, generation and a
/// checksum. The generation counts how often the log was written anew; its file is
/// named after it.
inline constexpr std::size_t kStoreStampBytes = 24;
std::string encode_store_stamp(std::uint64_t generation);
/// The generation. InvalidArgument for another format, another version, or damage;
/// `path` is for the message.
std::uint64_t decode_store_stamp(std::string_view bytes, const std::string& path);

/// One change, ready to be appended: its length and checksums, then the key and value;
/// a null value stands for a key that was erased.
std::string encode_store_record(std::string_view key, const StoreValue& value);

/// Takes the log in pieces of any size and finds the records in them. A record that is
/// cut short at the end is the trace of a writer that was killed; one that is whole and
/// wrong is damage. Only the first can be repaired, by cutting the file at
/// good_bytes().
class StoreLogParser {
 public:
  using Take = std::function<void(std::string key, StoreValue value)>;

  /// For a log whose stamp was read; `path` is for messages.
  explicit StoreLogParser(std::string path) : path_(std::move(path)) {}

  /// Calls `take` for every record that is now whole. InvalidArgument with the place
  /// for damage, after which the parser must not be used again.
  void feed(std::string_view bytes, const Take& take);
  /// Where the last whole record ends.
  std::uint64_t good_bytes() const { return good_bytes_; }
  /// Whether there is a piece of a record behind it.
  bool torn() const { return !rest_.empty(); }
  /// Forgets that piece, because the file was cut.
  void drop_torn() { rest_.clear(); }

 private:
  /// The size of the first record of `bytes`; 0 while it is not whole.
  std::size_t take_one(std::string_view bytes, const Take& take) const;
  [[noreturn]] void refuse(const char* what) const;

  std::string path_;
  std::string rest_;
  std::uint64_t good_bytes_ = kStoreStampBytes;
};

}  // namespace trireme::net
