#include "trireme/bench/protocol.h"

#include <algorithm>
#include <istream>
#include <ostream>

#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::bench {
namespace {

using Json = nlohmann::json;

// The values of every repetition as one list, turned into one value.
template <class Combine>
std::vector<double> over_ranks(const Rows& rows, Combine combine) {
  std::vector<double> result;
  const size_t repetitions = rows.empty() ? 0 : rows.front().size();
  for (const auto& row : rows)
    if (row.size() != repetitions)
      throw InvalidArgument(text(
          "[bench] expected ",
          repetitions,
          " times from every rank, got ",
          row.size(),
          " from one; look at the workers' messages"));
  for (size_t i = 0; i < repetitions; ++i) {
    std::vector<double> column;
    for (const auto& row : rows)
      column.push_back(row[i]);
    result.push_back(combine(column));
  }
  return result;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    CommJob, op, bytes, dtype, in_segment, warm_up, repetitions)

std::string to_line(const CommJob& job) {
  return Json(job).dump();
}

CommJob parse_comm_job(const std::string& line) {
  return parse_job<CommJob>(line);
}

std::string ready_line() {
  return answer_line({});
}

std::string answer_line(const Rows& rows) {
  return Json{{"rows", rows}}.dump();
}

std::string error_line(const std::string& what) {
  return Json{{"error", what}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int serve_jobs(
    std::istream& in, std::ostream& out, const std::function<JobWork()>& start) {
  try {
    const JobWork work = start();
    out << ready_line() << std::endl;
    for (std::string line; std::getline(in, line);)
      out << answer_line({work(line)}) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    out << error_line(error.what()) << std::endl;
    return 1;
  }
}

Rows parse_answer(const std::string& line) {
  try {
    const Json object = Json::parse(line);
    if (object.contains("error"))
      throw Error(object.at("error").get<std::string>());
    return object.at("rows").get<Rows>();
  } catch (const Json::exception&) {
    throw InvalidArgument(text(
        "[bench] expected a worker's answer, got ",
        in_quotes(line),
        "; let it write nothing else to its standard output"));
  }
}

std::vector<double> slowest(const Rows& rows) {
  return over_ranks(rows, [](const std::vector<double>& times) {
    return *std::max_element(times.begin(), times.end());
  });
}

std::vector<double> spread(const Rows& rows) {
  return over_ranks(rows, [](const std::vector<double>& times) {
    const auto [first, last] = std::minmax_element(times.begin(), times.end());
    return *last - *first;
  });
}

}  // namespace trireme::bench
