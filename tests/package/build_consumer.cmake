# Builds tests/package/consumer as an outside project and runs it.
#
#   cmake -DWAY=installed|components|subdirectory -DSOURCE=… -DBUILD=… -DWORK=… -DTORCH=… -DVERSION=…
#         -DGENERATOR=… -DCOMPILER=… -DLAUNCHER=… -DTLS=ON|OFF -P build_consumer.cmake
file(REMOVE_RECURSE "${WORK}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${code}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(tls missing)
if(TLS AND NOT WAY STREQUAL "components")
  set(tls there)
endif()
set(lines "Trireme ${VERSION}" "core: caught InternalError" "comm: 1 \\+ 2 = 3"
  "net: nothing \\(insecure-loopback\\), TLS is ${tls}")
if(NOT WAY STREQUAL "subdirectory")
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
  # An installed tree can be moved, and says nothing of where it was made.
  file(RENAME "${WORK}/first" "${WORK}/prefix")
  file(GLOB_RECURSE files "${WORK}/prefix/*.cmake")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    foreach(path IN ITEMS "${SOURCE}" "${BUILD}" "${TORCH}" "${WORK}")
      string(FIND "${text}" "${path}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} holds a path of this machine: ${path}")
      endif()
    endforeach()
  endforeach()
  set(where "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
  # Who links pipe and dp needs none of these, and does not look for them either.
  if(WAY STREQUAL "components")
    list(APPEND where "-DTRIREME_COMPONENTS=core,comm,net,pipe,dp")
    foreach(package IN ITEMS MPI nlohmann_json tomlplusplus CLI11 OpenSSL GTest)
      list(APPEND where "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
    endforeach()
    list(APPEND lines "pipe and dp: the gradient is 1")
  endif()
else()
  set(where "-DTRIREME_SOURCE=${SOURCE}")
endif()

run("${CMAKE_COMMAND}" -S "${SOURCE}/tests/package/consumer" -B "${WORK}/build" -G "${GENERATOR}"
  ${where} "-DTRIREME_TORCH=${TORCH}" -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
run("${CMAKE_COMMAND}" --build "${WORK}/build" --target consumer)
run("${WORK}/build/consumer")
message("${output}")
foreach(line IN LISTS lines)
  if(NOT output MATCHES "(^|\n)${line}\n")
    message(FATAL_ERROR "expected the line \"${line}\" in:\n${output}")
  endif()
endforeach()
