# Run after a test program is built: asks it for its suites and writes one ctest entry a suite.
# One a test would be finer, but loading libtorch a thousand times takes longer than the tests.
#
# Reads  program, prefix, file, names, environment, factor (of the timeouts)
#
# What the program lists goes to the file `names`, for tools/check_inventory.py.
execute_process(COMMAND "${program}" --gtest_list_tests
  OUTPUT_VARIABLE listing RESULT_VARIABLE result TIMEOUT 120)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${program} --gtest_list_tests failed: ${result}\n${listing}")
endif()
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listing}")
set(script "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n|\\.$" "" suite "${suite}")
  # The name of a suite says what it needs.
  set(alone FALSE)
  if(suite MATCHES "Peer$")
    set(label peer)
    set(seconds 300)
    set(alone TRUE)  # what is measured against PyTorch must have the machine for itself
  elseif(suite MATCHES "Procs$")
    set(label procs)
    set(seconds 300)
  elseif(suite MATCHES "Ranks$")
    set(label ranks)
    set(seconds 180)
  else()
    set(label unit)
    set(seconds 60)
  endif()
  math(EXPR seconds "${seconds} * ${factor}")
  string(APPEND script
    "add_test([==[${prefix}.${suite}]==] [==[${program}]==] [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties([==[${prefix}.${suite}]==] PROPERTIES LABELS ${label} "
    "TIMEOUT ${seconds} RUN_SERIAL ${alone} SKIP_RETURN_CODE 77 "
    "ENVIRONMENT [==[${environment}]==])\n")
endforeach()
file(WRITE "${file}" "${script}")
file(WRITE "${names}" "${listing}")
