#include "trireme/data/megatron_index.h"

#include <array>
#include <optional>

#include "trireme/data/file_bytes.h"

namespace trireme::data {
namespace {

std::optional<TokenType> megatron_type(uint8_t code) {
  constexpr std::array kTypes{
      TokenType::U8, TokenType::I8, TokenType::I16, TokenType::I32, TokenType::I64};
  if (code == 8)
    return TokenType::U16;
  if (code < 1 || code > kTypes.size())
    return std::nullopt;
  return kTypes[code - 1U];
}

/// Reads an index from its start, and refuses what it does not have.
class IndexReader {
 public:
  IndexReader(
      std::span<const std::byte> bytes, uint64_t bin_bytes, const std::string& file)
      : bytes_(bytes), bin_bytes_(bin_bytes), file_(file) {}

  MegatronIndex read() {
    read_header();
    read_sequences();
    read_documents();
    return index_;
  }

 private:
  void read_header();
  void read_sequences();
  void read_documents();

  std::span<const std::byte> bytes_;
  uint64_t bin_bytes_;
  const std::string& file_;
  size_t offset_ = 0;
  uint64_t document_entries_ = 0;
  MegatronIndex index_;
};

void IndexReader::read_header() {
  constexpr size_t kHeader = 9 + 8 + 1 + 8 + 8;
  if (!begins_with(bytes_, kMegatronMagic))
    refuse_file(file_, "an index that begins with \"MMIDIDX\", got another start");
  if (bytes_.size() < kHeader)
    refuse_file(file_, kHeader, " bytes of header, got ", bytes_.size());
  if (const auto version = number_at<uint64_t>(bytes_, 9); version != 1)
    refuse_file(file_, "version 1 of the index, got ", version);
  const auto code = number_at<uint8_t>(bytes_, 17);
  const auto type = megatron_type(code);
  if (!type)
    refuse_file(
        file_, "a type of whole numbers (code 1 to 5, or 8), got code ", int{code});
  index_.tokens.type = *type;
  const auto sequences = number_at<uint64_t>(bytes_, 18);
  document_entries_ = number_at<uint64_t>(bytes_, 26);
  offset_ = kHeader;
  // The division keeps the products below from running over.
  const uint64_t room = bytes_.size() - kHeader;
  const bool fits = sequences <= room / 12 && document_entries_ <= room / 8;
  const uint64_t needed = fits ? sequences * 12 + document_entries_ * 8 : 0;
  // After it there may be a byte of mode for each sequence.
  if (!fits || (room != needed && room != needed + sequences))
    refuse_file(
        file_,
        "the bytes of ",
        sequences,
        " sequences and ",
        document_entries_,
        " document entries after the header, got ",
        room,
        " bytes");
  index_.sequences = static_cast<int64_t>(sequences);
}

void IndexReader::read_sequences() {
  const uint64_t size = bytes_of(index_.tokens.type);
  const auto sequences = static_cast<size_t>(index_.sequences);
  const size_t pointers = offset_ + sequences * sizeof(int32_t);
  uint64_t place = 0;  // in the .bin file; at most 2^31 * 8 a sequence, so it fits
  for (size_t i = 0; i < sequences; ++i) {
    const auto length = number_at<int32_t>(bytes_, offset_ + i * sizeof(int32_t));
    const auto pointer = number_at<int64_t>(bytes_, pointers + i * sizeof(int64_t));
    if (length < 0)
      refuse_file(file_, "a length for sequence ", i, ", got ", length);
    if (pointer < 0 || static_cast<uint64_t>(pointer) != place)
      refuse_file(
          file_,
          "sequence ",
          i,
          " at byte ",
          place,
          ", where the one before it ends, got byte ",
          pointer);
    place += static_cast<uint64_t>(length) * size;
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (place > bin_bytes_)
      refuse_file(
          file_,
          "sequence ",
          i,
          " to end within the ",
          bin_bytes_,
          " bytes of the .bin file, got an end at byte ",
          place);
#endif
  }
#ifndef TRIREME_PLANTED_BUG
  if (place != bin_bytes_)
    refuse_file(
        file_, "a .bin file of ", place, " bytes, got one of ", bin_bytes_, " bytes");
#endif
  index_.tokens.count = static_cast<int64_t>(place / size);
  offset_ = pointers + sequences * sizeof(int64_t);
}

void IndexReader::read_documents() {
  int64_t before = 0;
  for (uint64_t i = 0; i < document_entries_; ++i) {
    const auto entry = number_at<int64_t>(bytes_, offset_ + i * sizeof(int64_t));
    if (entry < before || entry > index_.sequences || (i == 0 && entry != 0))
      refuse_file(
          file_,
          "document entries that rise from 0 to ",
          index_.sequences,
          ", got ",
          entry,
          " as entry ",
          i);
    before = entry;
  }
  if (before != index_.sequences)
    refuse_file(
        file_,
        "the last document to end at sequence ",
        index_.sequences,
        ", got an end at ",
        before);
  index_.documents =
      document_entries_ == 0 ? 0 : static_cast<int64_t>(document_entries_) - 1;
}

}  // namespace

MegatronIndex parse_megatron(
    std::span<const std::byte> index, uint64_t bin_bytes, const std::string& file) {
  return IndexReader(index, bin_bytes, file).read();
}

}  // namespace trireme::data
