#include "trireme/launch/word.h"

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::launch {
namespace {

using net::ByteReader;
using net::ByteWriter;

constexpr size_t kMostName = 1024;
constexpr size_t kMostText = size_t{12} << 10;

void put(ByteWriter& out, const Failure& failure) {
  out.i64(failure.rank)
      .i64(failure.ending.exit_code)
      .i64(failure.ending.signal)
      .flag(failure.ending.core_dumped)
      .string(std::string_view(failure.last_lines).substr(0, kMostText));
}

void put(ByteWriter& out, const NodeCard& card) {
  out.i64(card.wish).i64(card.ranks).i64(card.least).i64(card.most);
  out.string(card.host).string(card.run_id).string(card.token);
}

void put(ByteWriter& out, const NodePlace& place) {
  for (const int number :
       {place.node,
        place.nodes,
        place.first_rank,
        place.ranks_in_all,
        place.attempt,
        place.max_restarts,
        place.master_port})
    out.i64(number);
  for (const std::string* name :
       {&place.run_id,
        &place.master_addr,
        &place.store,
        &place.log_name,
        &place.job_key})
    out.string(*name);
}

int take_int(ByteReader& in, int least, int most) {
  const std::int64_t number = in.i64();
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  if (number < least || number > most)
    throw InvalidArgument(text(
        "[launch] expected a number from ",
        least,
        " to ",
        most,
        " in a word of another node, got ",
        number,
        "; run the same release of Trireme on all nodes"));
#endif
  return static_cast<int>(number);
}

constexpr int kMostNumber = 1'000'000'000;

int take_count(ByteReader& in) {
  return take_int(in, 0, kMostNumber);
}

void take(ByteReader& in, Failure& failure) {
  failure.rank = take_count(in);
  failure.ending.exit_code = take_int(in, 0, 255);
  failure.ending.signal = take_int(in, 0, 127);
  failure.ending.core_dumped = in.flag();
  failure.last_lines = in.string(kMostText);
}

void take(ByteReader& in, NodeCard& card) {
  card.wish = take_int(in, -1, kMostNumber);
  card.ranks = take_int(in, 1, kMostRanks);
  card.least = take_int(in, 1, kMostNumber);
  card.most = take_int(in, 1, kMostNumber);
  card.host = in.string(kMostName);
  card.run_id = in.string(kMostName);
  card.token = in.string(kMostName);
}

void take(ByteReader& in, NodePlace& place) {
  for (int* number :
       {&place.node,
        &place.nodes,
        &place.first_rank,
        &place.ranks_in_all,
        &place.attempt,
        &place.max_restarts,
        &place.master_port})
    *number = take_count(in);
  for (std::string* name :
       {&place.run_id,
        &place.master_addr,
        &place.store,
        &place.log_name,
        &place.job_key})
    *name = in.string(kMostName);
}

}  // namespace

std::string encode(const Word& word) {
  ByteWriter out;
  out.u8(kWordMark).u8(static_cast<std::uint8_t>(word.kind)).i64(word.number);
  out.string(std::string_view(word.text).substr(0, kMostText));
  if (word.kind == Word::Kind::Failed)
    put(out, word.failure);
  if (word.kind == Word::Kind::Join)
    put(out, word.card);
  if (word.kind == Word::Kind::Go)
    put(out, word.place);
  return out.take();
}

Word decode_word(std::string_view bytes) {
  ByteReader in(bytes, "a word of another node");
  const int mark = in.u8();
  const int kind = in.u8();
  if (mark != kWordMark || kind > static_cast<int>(Word::Kind::Here))
    throw InvalidArgument(text(
        "[launch] expected a word of another node, got one of kind ",
        kind,
        " after mark ",
        mark,
        "; run the same release of Trireme on all nodes"));
  Word word{.kind = static_cast<Word::Kind>(kind)};
  word.number = take_count(in);
  word.text = in.string(kMostText);
  if (word.kind == Word::Kind::Failed)
    take(in, word.failure);
  if (word.kind == Word::Kind::Join)
    take(in, word.card);
  if (word.kind == Word::Kind::Go)
    take(in, word.place);
  in.expect_end();
  return word;
}

std::string node_name(const NodeCard& card) {
  return card.wish < 0 ? "node" : text("node-", card.wish);
}

}  // namespace trireme::launch
