// Jobs of benchmark workers, as lines of JSON.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::bench {

/// The job that a line describes; `fill` takes its members out of the object.
/// InvalidArgument for what is no such line.
///
///     return parse_job<DdpJob>(line, [](const auto& object, DdpJob& job) {
///       object.at("layers").get_to(job.layers);
///     });
template <class Job, class Fill>
Job parse_job(const std::string& line, const Fill& fill) {
  using Json = nlohmann::json;
  try {
    Job job;
    fill(Json::parse(line), job);
    return job;
  } catch (const Json::exception&) {
    throw InvalidArgument(
        text("[cli] expected a job as one line of JSON, got ", in_quotes(line)));
  }
}

}  // namespace trireme::bench
