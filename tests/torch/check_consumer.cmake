# Installs the build tree, then builds and runs consumer/ against it and the LibTorch it was made for;
# PYTHON exchanges weights with it (its environment names the operators).
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
foreach(component IN ITEMS library torch)
  run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/prefix" --component ${component})
endforeach()
run("${CMAKE_COMMAND}" -S "${SOURCE}/tests/torch/consumer" -B "${WORK}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DTorch_DIR=${TORCH}")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer")
run("${WORK}/build/linear")
run("${PYTHON}" "${SOURCE}/tests/torch/consumer/exchange.py" write "${WORK}/from_python.pt")
run("${WORK}/build/attention" "${WORK}/from_python.pt" "${WORK}/to_python.pt")
run("${PYTHON}" "${SOURCE}/tests/torch/consumer/exchange.py" check "${WORK}/to_python.pt")
