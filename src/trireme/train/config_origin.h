// Errors that name a key of a config say where it was set.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/train/config.h"

namespace trireme::train {

/// The message with the places in front where the keys that it names were set.
///
///     "[train] expected model.dim to be …"  ->  "[train] job.toml:4: expected
///     model.dim …"
std::string with_origins(const Config& config, const std::string& message);

/// The message of another module with a key in front, which that module does not know.
std::string about_key(std::string_view key, const std::string& message);

/// Calls f; what it refuses is said to be the fault of a key.
///
///     return about("data.tokenizer", [&] { return data::load_tokenizer(path); });
template <class F>
auto about(std::string_view key, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(about_key(key, error.what()));
  } catch (const NotSupported& error) {
    throw NotSupported(about_key(key, error.what()));
  }
}

}  // namespace trireme::train
