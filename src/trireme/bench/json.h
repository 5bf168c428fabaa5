// Records as a file: an array of objects, one a case.
#pragma once
#include <string>
#include <vector>

#include "trireme/bench/record.h"

namespace trireme::bench {

/// The records as JSON: {"bench","case","ours","peer","ratio","limit","goal","unit",
/// "samples","machine","load"}, with null for what is not there. "samples" holds the
/// raw times and the rounds' medians of both sides.
std::string to_json(const std::vector<Record>& records);

/// Reads what to_json() wrote; InvalidArgument for anything else.
std::vector<Record> parse_records(const std::string& json);

/// Writes the file beside its place and renames it, so that nobody reads half of it.
void write_records(const std::string& path, const std::vector<Record>& records);

/// InvalidArgument, with the path, for a file that is not there or not of this form.
std::vector<Record> read_records(const std::string& path);

}  // namespace trireme::bench
