// Token files as the programs that they belong to write them.
#pragma once
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

inline void append(std::string& bytes, auto number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Stored>
std::string raw(const std::vector<int64_t>& tokens) {
  std::string bytes;
  for (const int64_t token : tokens)
    append(bytes, static_cast<Stored>(token));
  return bytes;
}

inline std::string llm_c_header(int32_t magic, int32_t version, int32_t count) {
  std::string bytes;
  for (const int32_t number : {magic, version, count})
    append(bytes, number);
  bytes.resize(256 * 4);
  return bytes;
}

/// What stands in an index of Megatron; tests break one part at a time.
struct IndexCase {
  std::string magic{"MMIDIDX\0\0", 9};
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int32_t> lengths;
  std::vector<int64_t> pointers;
  std::vector<int64_t> documents;
  std::string modes;

  /// Sequences of these lengths, one after the other, each a document.
  static IndexCase of(std::vector<int32_t> lengths, uint8_t code, int64_t token_bytes) {
    IndexCase index;
    index.code = code;
    index.lengths = std::move(lengths);
    int64_t place = 0;
    for (const int32_t length : index.lengths) {
      index.pointers.push_back(place);
      place += length * token_bytes;
    }
    index.documents.resize(index.lengths.size() + 1);
    std::iota(index.documents.begin(), index.documents.end(), 0);
    return index;
  }

  std::string bytes() const {
    std::string all = magic;
    append(all, version);
    append(all, code);
    append(all, static_cast<uint64_t>(lengths.size()));
    append(all, static_cast<uint64_t>(documents.size()));
    for (const int32_t length : lengths)
      append(all, length);
    for (const int64_t pointer : pointers)
      append(all, pointer);
    for (const int64_t document : documents)
      append(all, document);
    return all + modes;
  }
};

inline std::span<const std::byte> as_bytes(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

/// 0, 1, 2, … below `count`.
inline std::vector<int64_t> counting(int64_t count, int64_t first = 0) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace trireme::data
