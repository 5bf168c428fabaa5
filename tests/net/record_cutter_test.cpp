#include "trireme/net/record_cutter.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

constexpr std::size_t kFull = RecordCutter::kRecord;

struct Cut {
  std::vector<std::size_t> records;
  /// How many of them are views of the caller's memory.
  int straight = 0;
  std::string bytes;
};

Cut cut_all(const std::vector<std::string>& parts) {
  std::vector<iovec> vectors;
  for (const std::string& part : parts)
    vectors.push_back({const_cast<char*>(part.data()), part.size()});
  RecordCutter cutter(vectors);
  std::vector<char> scratch;
  Cut cut;
  while (!cutter.empty()) {
    const auto record = cutter.next(scratch);
    cut.records.push_back(record.size());
    cut.straight += record.data() != scratch.data() ? 1 : 0;
    cut.bytes.append(record.data(), record.size());
    cutter.skip(record.size());
  }
  return cut;
}

std::vector<std::string> of_sizes(const std::vector<std::size_t>& sizes) {
  std::vector<std::string> parts;
  char letter = 'a';
  for (const std::size_t size : sizes)
    parts.emplace_back(
        size, letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1));
  return parts;
}

using Sizes = std::vector<std::size_t>;

TEST(RecordCutter, SendsAFrameWithFewRecords) {
  // Both headers in one record, then the payload from where it is.
  const Cut cut = cut_all(of_sizes({64, 100, 4 * kFull}));
  EXPECT_EQ(cut.records, (Sizes{164, kFull, kFull, kFull, kFull}));
  EXPECT_EQ(cut.straight, 4);
}

TEST(RecordCutter, JoinsSmallFrames) {
  EXPECT_EQ(cut_all(of_sizes({64, 100, 64, 200, 64, 1})).records, (Sizes{493}));
  EXPECT_EQ(cut_all(of_sizes({64, 12'000, 64, 12'000})).records, (Sizes{kFull, 7744}));
  // The rest of a large payload goes with the next frame.
  EXPECT_EQ(cut_all(of_sizes({kFull + 10, 64})).records, (Sizes{kFull, 74}));
}

TEST(RecordCutter, CopiesNothingThatStandsAlone) {
  EXPECT_EQ(cut_all(of_sizes({100})).straight, 1);
  EXPECT_EQ(cut_all(of_sizes({100, kFull})).straight, 2);
  EXPECT_EQ(cut_all(of_sizes({0, 100, 0})).straight, 1);
}

TEST(RecordCutter, TakesEmptyParts) {
  EXPECT_EQ(cut_all({}).records, Sizes{});
  EXPECT_EQ(cut_all(of_sizes({0, 0})).records, Sizes{});
  EXPECT_EQ(cut_all(of_sizes({0, 3, 0, 4, 0})).records, (Sizes{7}));
}

TEST(RecordCutter, NeverEndsBehindTheFirstByteOfAPart) {
  EXPECT_EQ(cut_all(of_sizes({kFull - 1, 2})).records, (Sizes{kFull - 1, 2}));
  EXPECT_EQ(cut_all(of_sizes({kFull - 1, 1})).records, (Sizes{kFull}));
  EXPECT_EQ(cut_all(of_sizes({kFull - 2, 3})).records, (Sizes{kFull, 1}));
}

TEST(RecordCutter, KeepsAllBytesInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> sizes(random() % 12);
    for (std::size_t& size : sizes)
      size = random() % 4 == 0 ? random() % (3 * kFull) : random() % 300;
    const auto parts = of_sizes(sizes);
    std::string whole;
    for (const std::string& part : parts)
      whole += part;
    const Cut cut = cut_all(parts);
    ASSERT_EQ(cut.bytes, whole);
    for (const std::size_t record : cut.records)
      ASSERT_LE(record, kFull);
    // At most two records where one full one would do.
    ASSERT_LE(
        cut.records.size(), 2 * (whole.size() / kFull) + 2 * parts.size() / 3 + 2);
  }
}

}  // namespace
}  // namespace trireme::net
