#include "trireme/bench/json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/proc_text.h"

namespace trireme::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Nanoseconds are as fine as the clock is.
double rounded(double microseconds) {
  return std::round(microseconds * 1e3) / 1e3;
}

OrderedJson rounded(const std::vector<double>& values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values)
    list.push_back(rounded(value));
  return list;
}

OrderedJson or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson to_object(const Record& record) {
  const auto peer = record.peer_value();
  return {
      {"bench", record.bench},
      {"case", record.name},
      {"left_out", record.left_out},
      {"ours", rounded(record.our_value())},
      {"peer", peer ? OrderedJson(rounded(*peer)) : OrderedJson()},
      {"ratio", or_null(record.ratio())},
      {"limit", or_null(record.limit)},
      {"goal", or_null(record.goal)},
      {"unit", record.unit},
      {"samples",
       {{"ours", rounded(record.ours.raw)},
        {"peer", rounded(record.peer.raw)},
        {"ours_rounds", rounded(record.ours.rounds)},
        {"peer_rounds", rounded(record.peer.rounds)}}},
      {"machine", record.machine},
      {"load", record.load}};
}

std::optional<double> number_or_none(const OrderedJson& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Record from_object(const OrderedJson& object) {
  const OrderedJson& samples = object.at("samples");
  Record record;
  object.at("bench").get_to(record.bench);
  object.at("case").get_to(record.name);
  record.left_out = object.value("left_out", "");  // older files have none
  samples.at("ours").get_to(record.ours.raw);
  samples.at("peer").get_to(record.peer.raw);
  samples.at("ours_rounds").get_to(record.ours.rounds);
  samples.at("peer_rounds").get_to(record.peer.rounds);
  record.limit = number_or_none(object.at("limit"));
  record.goal = number_or_none(object.at("goal"));
  object.at("unit").get_to(record.unit);
  object.at("machine").get_to(record.machine);
  object.at("load").get_to(record.load);
  return record;
}

}  // namespace

std::string to_json(const std::vector<Record>& records) {
  OrderedJson list = OrderedJson::array();
  for (const Record& record : records)
    list.push_back(to_object(record));
  return list.dump(1) + "\n";
}

std::vector<Record> parse_records(const std::string& json) {
  try {
    const OrderedJson list = OrderedJson::parse(json);
    if (!list.is_array())
      throw InvalidArgument(
          "[bench] expected an array of records, got something else; give a file that "
          "--json wrote");
    std::vector<Record> records;
    for (const OrderedJson& object : list)
      records.push_back(from_object(object));
    return records;
  } catch (const OrderedJson::exception& error) {
    throw InvalidArgument(text(
        "[bench] expected records as --json writes them, got ",
        in_quotes(error.what()),
        "; give a file that --json wrote"));
  }
}

void write_records(const std::string& path, const std::vector<Record>& records) {
  write_durably(path, to_json(records));
}

std::vector<Record> read_records(const std::string& path) {
  const auto content = read_text_file(path);
  if (!content)
    throw InvalidArgument(text(
        "[bench] expected a file of records at ",
        in_quotes(path),
        ", got none; write one with --json"));
  try {
    return parse_records(*content);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(text(error.what(), "; see ", in_quotes(path)));
  }
}

}  // namespace trireme::bench
