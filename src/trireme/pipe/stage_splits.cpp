#include "trireme/pipe/stage_splits.h"

#include <algorithm>

#include "trireme/comm/gather_rows.h"
#include "trireme/core/error.h"
#include "trireme/pipe/runtime.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using autograd::SplitCounts;
using sched::index;
using Names = std::map<std::string, int64_t>;

int64_t count(const Names& names) {
  int64_t sum = 0;
  for (const auto& [name, number] : names)
    sum += number;
  return sum;
}

// Names as numbers, a letter each: there are few, and reports are rare.
void write(const Names& names, std::vector<int64_t>& row) {
  row.push_back(static_cast<int64_t>(names.size()));
  for (const auto& [name, number] : names) {
    row.insert(row.end(), {number, static_cast<int64_t>(name.size())});
    row.insert(row.end(), name.begin(), name.end());
  }
}

using Reader = std::vector<int64_t>::const_iterator;

Names read(Reader& at) {
  Names names;
  for (int64_t left = *at++; left > 0; --left) {
    const int64_t number = *at++;
    const int64_t size = *at++;
    std::string name;
    for (int64_t i = 0; i < size; ++i)
      name.push_back(static_cast<char>(*at++));
    names[name] = number;
  }
  return names;
}

std::string count_text(const Names& names, const char* what) {
  std::string list;
  for (const auto& [name, number] : names)
    list += text(list.empty() ? " (" : ", ", name);
  return text(", ", count(names), " ", what, list, list.empty() ? "" : ")");
}

}  // namespace

int64_t StageSplits::total() const {
  return split + count(whole) + count(twice);
}

std::vector<StageSplits> own_splits(const Runtime& runtime) {
  std::vector<StageSplits> all;
  for (size_t i = 0; i < runtime.stages().size(); ++i) {
    const SplitCounts& counts = runtime.splits()[i];
    all.push_back(
        {.stage = runtime.stages()[i].index,
         .split = counts.total(SplitCounts::kSplit),
         .whole = counts.names(SplitCounts::kWhole),
         .twice = counts.names(SplitCounts::kTwice)});
  }
  return all;
}

std::vector<StageSplits> gather_splits(
    const comm::Group& group, const std::vector<StageSplits>& mine) {
  std::vector<int64_t> row;
  for (const StageSplits& one : mine) {
    row.insert(row.end(), {one.stage, one.split});
    write(one.whole, row);
    write(one.twice, row);
  }
  std::vector<StageSplits> all;
  for (const std::vector<int64_t>& theirs : comm::gather_rows(group, row))
    for (Reader at = theirs.begin(); at != theirs.end();) {
      StageSplits& one = all.emplace_back();
      one.stage = static_cast<int>(*at++);
      one.split = *at++;
      one.whole = read(at);
      one.twice = read(at);
    }
  std::sort(all.begin(), all.end(), [](const StageSplits& a, const StageSplits& b) {
    return a.stage < b.stage;
  });
  return all;
}

std::string to_text(const StageSplits& splits) {
  return text(
      "stage ",
      splits.stage,
      ": ",
      splits.split,
      " nodes split",
      count_text(splits.whole, "whole"),
      count_text(splits.twice, "twice"));
}

}  // namespace trireme::pipe
