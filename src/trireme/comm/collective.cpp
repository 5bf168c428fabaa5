#include "trireme/comm/collective.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>
#include <vector>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// kind 4 bits, op 3, dtype 6, root + 1 13, any order 1, count 37: exact for 8,191 ranks
// and for all that fits in memory.
constexpr int kOpShift = 4, kDtypeShift = 7, kRootShift = 13, kOrderShift = 26;
constexpr int kCountShift = 27;
constexpr uint64_t kRootMask = (1 << 13) - 1;

constexpr std::array kKindNames = {
    "barrier",
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "all_gather_uneven",
    "all_to_all of lists",
    "split"};
constexpr std::array kOpNames = {
    "sum", "mean", "min", "max", "product", "bit_and", "bit_or"};

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::Reduce ||
         kind == CollectiveKind::ReduceScatter;
}

}  // namespace

bool gives_apart(CollectiveKind kind) {
  return kind == CollectiveKind::Scatter || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::AllToAllUneven;
}

Piece given_to(const Collective& call, int reader) {
  if (call.give.empty() || (call.kind == CollectiveKind::Gather && reader != call.root))
    return {};
  return call.give[gives_apart(call.kind) ? static_cast<size_t>(reader) : 0];
}

void take_own(const Collective& call, int rank) {
  const Piece from = given_to(call, rank);
  if (call.take.empty() || from.bytes == 0)
    return;
  const Piece& own = call.take[static_cast<size_t>(rank)];
  if (own.bytes > 0 && own.data != from.data)
    std::memmove(own.data, from.data, std::min(own.bytes, from.bytes));
}

uint64_t signature(const Collective& call) {
  constexpr uint64_t kMostCount = (uint64_t{1} << (64 - kCountShift)) - 1;
  if (call.root < -1 || static_cast<uint64_t>(call.root + 1) > kRootMask)
    throw NotSupported(text(
        "[comm] expected a root from 0 to ",
        kRootMask - 1,
        ", got rank ",
        call.root,
        "; take a lower rank"));
  if (call.count < 0 || static_cast<uint64_t>(call.count) > kMostCount)
    throw NotSupported(text(
        "[comm] expected at most ",
        kMostCount,
        " elements in a call, got ",
        call.count,
        "; make several calls"));
  return static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.op) << kOpShift |
         static_cast<uint64_t>(call.dtype) << kDtypeShift |
         static_cast<uint64_t>(call.root + 1) << kRootShift |
         static_cast<uint64_t>(reduces(call.kind) ? call.order : SumOrder::Ranks)
             << kOrderShift |
         static_cast<uint64_t>(call.count) << kCountShift;
}

std::string describe(uint64_t packed) {
  const auto kind = static_cast<CollectiveKind>(packed & 15);
  if (kind == CollectiveKind::Barrier || kind == CollectiveKind::Split)
    return to_string(kind);
  const auto op = static_cast<ReduceOp>(packed >> kOpShift & 7);
  const auto dtype = static_cast<c10::ScalarType>(packed >> kDtypeShift & 63);
  const int root = static_cast<int>(packed >> kRootShift & kRootMask) - 1;
  std::string out = to_string(kind);
  if (reduces(kind))
    out += text(" ", to_string(op));
  out += text(" ", dtype_name(dtype), "[", packed >> kCountShift, "]");
  if (root >= 0)
    out += text(
        kind == CollectiveKind::Broadcast || kind == CollectiveKind::Scatter
            ? " from rank "
            : " to rank ",
        root);
  if ((packed >> kOrderShift & 1) != 0)
    out += " in any order";
  return out;
}

std::string describe_mismatch(
    std::span<const uint64_t> signatures, std::span<const int> members) {
  std::map<uint64_t, std::vector<int>> callers;
  for (size_t i = 0; i < members.size(); ++i)
    callers[signatures[i]].push_back(members[i]);
  std::string calls;
  for (const auto& [call, ranks] : callers)
    calls +=
        text(calls.empty() ? "" : "; ", rank_list(ranks), " called ", describe(call));
  return text(
      "[comm] expected the same call with the same dtype and count on every rank, "
      "got: ",
      calls,
      "; make all of them call the same");
}

std::string rank_list(std::span<const int> ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0)
      out += i + 1 == ranks.size() ? " and " : ", ";
    out += std::to_string(ranks[i]);
  }
  return out;
}

std::string rank_text(int rank, std::span<const int> members) {
  const auto place = static_cast<size_t>(rank);
  if (place >= members.size() || members[place] == rank)
    return text("rank ", rank);
  return text("rank ", rank, " (world rank ", members[place], ")");
}

std::string group_text(std::span<const int> members, int world_size) {
  constexpr size_t kMost = 8;
  if (members.size() == static_cast<size_t>(world_size))
    return "the world";
  const size_t named = std::min(members.size(), kMost);
  return text(
      "the group of ",
      rank_list(members.first(named)),
      named < members.size() ? text(" and ", members.size() - named, " more") : "");
}

std::string to_string(CollectiveKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown call";
}

std::string to_string(ReduceOp op) {
  const auto index = static_cast<size_t>(op);
  return index < kOpNames.size() ? kOpNames[index] : "unknown op";
}

std::string dtype_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    default: {
      std::string name = c10::toString(dtype);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
      return name;
    }
  }
}

}  // namespace trireme::comm
