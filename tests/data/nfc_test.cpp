#include "trireme/data/nfc.h"

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(Nfc, JoinsLettersAndMarks) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("xe\u0301y"), "x\u00e9y");
  EXPECT_EQ(nfc("a\u0323\u0302"), "\u1ead");  // by two steps
  EXPECT_EQ(nfc("\u00e2\u0323"), "\u1ead");   // the mark goes below first
  EXPECT_EQ(nfc("x\u0301"), "x\u0301");       // there is no such letter
}

TEST(Nfc, PutsMarksInOrder) {
  EXPECT_EQ(nfc("x\u0302\u0323"), "x\u0323\u0302");
  EXPECT_EQ(nfc("\u0302\u0323"), "\u0323\u0302");
  // Of two marks of one order the second cannot reach the letter.
  EXPECT_EQ(nfc("x\u0300\u0301"), "x\u0300\u0301");
  EXPECT_EQ(nfc("e\u0302\u0301\u0300"), "\u1ebf\u0300");
}

TEST(Nfc, MakesKoreanSyllables) {
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "한");
  EXPECT_EQ(nfc("하\u11ab"), "한");
  EXPECT_EQ(nfc("한\u11ab"), "한\u11ab");
  EXPECT_EQ(nfc("\u1112\u1112\u1161"), "\u1112하");
}

TEST(Nfc, ReplacesWhatHasAnotherForm) {
  EXPECT_EQ(nfc("\u2126\u212b"), "\u03a9\u00c5");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");  // never joined
  EXPECT_EQ(nfc("\uf900"), "\u8c48");
}

TEST(Nfc, LeavesTheRest) {
  for (const char* text : {"", "a", "Hello é 漢字 한국어 😀", "สวัสดี", "नमस्ते"})
    EXPECT_EQ(nfc(text), text);
}

}  // namespace
}  // namespace trireme::data
