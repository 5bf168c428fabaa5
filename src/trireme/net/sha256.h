// SHA-256, so that keys have fingerprints in builds without OpenSSL too.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::net {

/// The SHA-256 (FIPS 180-4) of some bytes. It leaves nothing of them on the stack. Not
/// made for speed: it is for short things, a few times a job.
///
///     const auto digest = sha256(std::as_bytes(std::span("abc", 3)));
std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

}  // namespace trireme::net
