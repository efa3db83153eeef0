# Run by ctest as `cmake -P check_architectures.cmake`: for which architectures launches may
# overlap.
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/RotaryArchitectures.cmake")

function(expect wanted)
  rotary_kernels_wait(got ${ARGN})
  if(NOT got STREQUAL wanted)
    message(SEND_ERROR "kernels for \"${ARGN}\" wait: ${got}, expected ${wanted}")
  endif()
endfunction()

expect(ON 80-virtual 90)                     # the default
expect(ON 80-real 89-real 90 100-real 120)   # the preset `release`
expect(ON 90)
expect(ON 90-real)
expect(ON 90a)
expect(ON 80-real 90a-real)
expect(ON 80-real 100-virtual)
expect(ON 80 90-virtual)
expect(ON native)
expect(ON all)
expect(ON all-major)

expect(OFF 80-virtual 90-real)               # 10.0 runs the PTX of 8.0
expect(OFF 80-virtual 90a)                   # as above
expect(OFF 80-virtual 100)                   # 9.0 runs the PTX of 8.0
expect(OFF 80)
expect(OFF 75 86)
expect(OFF OFF)
expect(OFF "")
expect(OFF)
