# The checks of the tree and the tests of the scripts. They look at files, not at programs, so
# one preset is enough: the sanitizer builds leave them out.
if(TRIREME_SANITIZE)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(trireme_add_script_test name script)
  add_test(NAME ${name}
    COMMAND Python3::Interpreter -B "${PROJECT_SOURCE_DIR}/${script}" ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 60 SKIP_RETURN_CODE 77)
endfunction()

trireme_add_script_test(tools.check_layers tools/check_layers.py)
trireme_add_script_test(tools.check_errors tools/check_errors.py)
trireme_add_script_test(tools.check_format tools/check_format.py)
# Names of tests are looked up in what the build has listed.
get_property(programs DIRECTORY PROPERTY TRIREME_TEST_PROGRAMS)
trireme_add_script_test(tools.check_inventory tools/check_inventory.py
  --tests "${CMAKE_CURRENT_BINARY_DIR}" --programs ${programs})
trireme_add_script_test(tools.build_times_test tests/tools/build_times_test.py)
trireme_add_script_test(tools.check_layers_test tests/tools/check_layers_test.py)
trireme_add_script_test(tools.check_errors_test tests/tools/check_errors_test.py)
trireme_add_script_test(tools.check_format_test tests/tools/check_format_test.py)
trireme_add_script_test(tools.check_inventory_test tests/tools/check_inventory_test.py)
trireme_add_script_test(tools.wheel_size_test tests/tools/wheel_size_test.py)
trireme_add_script_test(script.trireme_test tests/script/trireme_test.py)
trireme_add_script_test(script.pip_test tests/script/pip_test.py)
set_tests_properties(script.pip_test PROPERTIES TIMEOUT 180)   # it makes two environments

if(TRIREME_PROGRAMS)
  add_test(NAME integration.readme COMMAND Python3::Interpreter -B
    "${PROJECT_SOURCE_DIR}/tests/integration/readme_test.py" $<TARGET_FILE:trireme>)
  set_tests_properties(integration.readme PROPERTIES LABELS ranks TIMEOUT 120 SKIP_RETURN_CODE 77
    ENVIRONMENT "${TRIREME_TEST_ENVIRONMENT}")

  # Our schedules are torch's; with the Python of TRIREME_PYTHON.
  add_test(NAME peer.schedule COMMAND Python3::Interpreter -B
    "${PROJECT_SOURCE_DIR}/tests/peer/schedule_peer.py" $<TARGET_FILE:trireme>)
  set_tests_properties(peer.schedule PROPERTIES LABELS peer TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
