#include "trireme/rpc/packed_list.h"

#include <algorithm>

#include "trireme/core/error.h"

static_assert(
    std::endian::native == std::endian::little,
    "blocks of numbers are written as they lie in memory");

namespace trireme::rpc {
namespace {

std::size_t width_of(NumberForm form) {
  switch (form) {
    case NumberForm::I8:
    case NumberForm::U8:
      return 1;
    case NumberForm::I16:
    case NumberForm::U16:
      return 2;
    case NumberForm::I32:
    case NumberForm::U32:
    case NumberForm::F32:
      return 4;
    default:
      return 8;
  }
}

NumberForm read_form(ValueReader& reader) {
  const int form = reader.bytes().u8();
  if (form > static_cast<int>(NumberForm::F64))
    throw InvalidArgument(text(
        "[rpc] expected a known form of numbers in ",
        reader.what(),
        ", got number ",
        form,
        "; both sides need the same version of the program"));
  return static_cast<NumberForm>(form);
}

void expect_signed(const std::uint64_t* numbers, std::size_t count) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < count; ++i)
    all |= numbers[i];
  if (all <= INT64_MAX)
    return;
  const std::uint64_t* found =
      std::find_if(numbers, numbers + count, [](auto n) { return n > INT64_MAX; });
  checked_number<std::int64_t>(*found, "a value to send");
}

}  // namespace

void write_packed(
    ValueWriter& writer, NumberForm form, const void* numbers, std::size_t count) {
  if (form == NumberForm::U64)
    expect_signed(static_cast<const std::uint64_t*>(numbers), count);
  writer.bytes().u8(static_cast<std::uint8_t>(form));
  writer.string({static_cast<const char*>(numbers), count * width_of(form)});
}

void write_packed(ValueWriter& writer, const std::vector<bool>& bits) {
  writer.bytes().u8(static_cast<std::uint8_t>(NumberForm::Bits));
  writer.count(bits.size());
  std::string bytes((bits.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (bits[i])
      bytes[i / 8] = static_cast<char>(bytes[i / 8] | 1 << i % 8);
  writer.string(bytes);
}

PackedNumbers read_packed(ValueReader& reader) {
  PackedNumbers packed{.form = read_form(reader)};
  if (packed.form == NumberForm::Bits)
    refuse_kind("numbers", "bool", reader.what());
  packed.bytes = reader.string();
  const std::size_t width = width_of(packed.form);
  packed.count = packed.bytes.size() / width;
  if (packed.bytes.size() % width != 0)
    throw InvalidArgument(text(
        "[rpc] expected whole numbers of ",
        width,
        " bytes in ",
        reader.what(),
        ", got ",
        packed.bytes.size(),
        " bytes; both sides need the same version of the program"));
  return packed;
}

std::vector<bool> read_packed_bits(ValueReader& reader) {
  if (read_form(reader) != NumberForm::Bits)
    refuse_kind("bool", "numbers", reader.what());
  const std::size_t count = reader.bytes().u32();
  const std::string_view bytes = reader.string();
  if (bytes.size() != (count + 7) / 8)
    throw InvalidArgument(text(
        "[rpc] expected ",
        (count + 7) / 8,
        " bytes for ",
        count,
        " bool in ",
        reader.what(),
        ", got ",
        bytes.size(),
        "; both sides need the same version of the program"));
  std::vector<bool> bits(count);
  for (std::size_t i = 0; i < count; ++i)
    bits[i] = (bytes[i / 8] >> i % 8 & 1) != 0;
  return bits;
}

void refuse_kind(const char* expected, const char* got, const char* what) {
  throw InvalidArgument(text(
      "[rpc] expected a list of ",
      expected,
      " in ",
      what,
      ", got one of ",
      got,
      "; both sides need the same version of the program"));
}

}  // namespace trireme::rpc
