# rotary_target_defaults(<target> [QUICK_TO_BUILD]): the flags of every target of ours, and of no
# other. QUICK_TO_BUILD: whose own speed does not matter, such as tests.
function(rotary_target_defaults target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK_TO_BUILD" "" "")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()

  # Products and sums are fused only where the code says std::fma: the same bits on every machine.
  target_compile_options(${target} PRIVATE -ffp-contract=off)

  if(arg_QUICK_TO_BUILD)
    target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  endif()

  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
    # GCC's optimiser sees overlaps in std::string (its bug 105651) and reads past the end in
    # std::sort of small arrays (107986) where there are none.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds)
    endif()
  endif()
  if(ROTARY_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()

  if(ROTARY_SANITIZE)
    set(flags -fsanitize=${ROTARY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
  endif()
  if(ROTARY_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
