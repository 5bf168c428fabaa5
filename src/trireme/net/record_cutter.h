// Cuts the parts of a write into TLS records.
#pragma once
#include <cstddef>
#include <span>
#include <sys/uio.h>
#include <vector>

namespace trireme::net {

/// Walks the parts of a write. Large parts become records of 16 KiB straight from where
/// they are; small ones that follow one another are copied together, because every
/// record costs a few dozen bytes and an encryption of its own.
///
///     RecordCutter cutter(parts);
///     while (!cutter.empty()) {
///       const auto record = cutter.next(scratch);
///       send(record);
///       cutter.skip(record.size());
///     }
class RecordCutter {
 public:
  /// The most that TLS puts into one record.
  static constexpr std::size_t kRecord = std::size_t{16} << 10;

  explicit RecordCutter(std::span<const iovec> parts) : parts_(parts) { drop_empty(); }

  bool empty() const { return parts_.empty(); }

  /// The next record, at least one byte: a view of a part, or of `scratch`. It never
  /// ends behind the first byte of a longer part: so one that counts all but the last
  /// byte of a record never counts a part that was begun as not begun.
  std::span<const char> next(std::vector<char>& scratch) const;

  /// Goes on by so many bytes, which must be there.
  void skip(std::size_t bytes);

 private:
  void drop_empty();
  std::span<const char> rest_of(std::size_t part) const;

  std::span<const iovec> parts_;
  /// How much of the first part is behind us.
  std::size_t done_ = 0;
};

}  // namespace trireme::net
