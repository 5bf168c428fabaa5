// Jobs of benchmark workers, as lines of JSON.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::bench {

/// The job that a line describes; its members are those of
/// NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE. InvalidArgument for what is no such line.
template <class Job>
Job parse_job(const std::string& line) {
  using Json = nlohmann::json;
  try {
    return Json::parse(line).get<Job>();
  } catch (const Json::exception&) {
    throw InvalidArgument(text(
        "[bench] expected a job as one line of JSON, got ",
        in_quotes(line),
        "; give one on standard input"));
  }
}

}  // namespace trireme::bench
