# TRIREME_SANITIZE=address,undefined or thread: for this project's own build only.
set(TRIREME_TEST_ENVIRONMENT
  "TRIREME_FLIGHT_DIR=" "OMP_NUM_THREADS=1"
  "TSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/cmake/tsan.supp':halt_on_error=1:die_after_fork=0"
  # The stacks that g++ 13 takes for this check are not aligned as AVX-512 wants them.
  "ASAN_OPTIONS=detect_stack_use_after_return=0"
  "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/cmake/lsan.supp'"
  "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1")
if(TRIREME_SANITIZE)
  add_compile_options("-fsanitize=${TRIREME_SANITIZE}" -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${TRIREME_SANITIZE}")
  # With their checks in between, GCC takes much for uninitialised that is not.
  add_compile_options(-Wno-maybe-uninitialized)
  if(TRIREME_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # libtorch's headers have fences, which ThreadSanitizer does not see; ours have none.
    add_compile_options(-Wno-tsan)
  endif()
  if(TRIREME_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    # libtorch hides some type information, which this check would need.
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()
