#include "trireme/net/bytes.h"

#include <limits>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::net {

ByteWriter& ByteWriter::string(std::string_view value) {
  if (value.size() > std::numeric_limits<std::uint32_t>::max())
    throw InvalidArgument(text(
        "[net] expected a string below 4 GiB for a header, got ",
        value.size(),
        " bytes; send it as the body of a message"));
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

std::string ByteWriter::take() {
  return std::exchange(bytes_, std::string());
}

std::string_view ByteReader::view(std::size_t limit) {
  const std::size_t size = u32();
  if (size > limit)
    throw InvalidArgument(text(
        "[net] expected at most ",
        limit,
        " bytes for a string in ",
        what_,
        ", got ",
        size,
        "; the bytes are damaged, or of another version"));
  if (size > left())
    refuse_cut(size);
  const std::string_view found = bytes_.substr(at_, size);
  at_ += size;
  return found;
}

bool ByteReader::flag() {
  const int value = u8();
  if (value > 1)
    throw InvalidArgument(text(
        "[net] expected 0 or 1 in ",
        what_,
        ", got ",
        value,
        "; the bytes are damaged, or of another version"));
  return value == 1;
}

void ByteReader::expect_end() const {
  if (left() > 0)
    throw InvalidArgument(text(
        "[net] expected the end of ",
        what_,
        " after ",
        at_,
        " bytes, got ",
        left(),
        " more; the bytes are damaged, or of another version"));
}

void ByteReader::refuse_cut(std::size_t expected) const {
  throw InvalidArgument(text(
      "[net] expected ",
      expected,
      " more bytes in ",
      what_,
      " after ",
      at_,
      ", got ",
      left(),
      "; the bytes were cut short"));
}

}  // namespace trireme::net
