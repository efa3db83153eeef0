# Run by ctest as `cmake -D ... -P check_install.cmake`: what make's targets install, uninstall and deb
# do, with COMPONENTS of the built rotary and a DESTDIR of its own. SOURCE, BINARY, WORK, VERSION,
# LIBDIR, CPACK and DPKG_DEB are given, too.
cmake_minimum_required(VERSION 3.25)
set(script "${SOURCE}/scripts/install.sh")
set(destdir "${WORK}/destdir")
set(prefix /opt/rotary)
set(root "${destdir}${prefix}")
set(ENV{DESTDIR} "${destdir}")
set(ENV{BUILD} "${BINARY}")
file(REMOVE_RECURSE "${WORK}")

function(expect_same what found wanted)
  if(NOT found STREQUAL wanted)
    message(FATAL_ERROR "${what}:\n  ${found}\nis not\n  ${wanted}")
  endif()
endfunction()

# Everything below the prefix, folders included.
function(list_tree variable)
  file(GLOB_RECURSE found LIST_DIRECTORIES ON RELATIVE "${root}" "${root}/*")
  list(SORT found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

function(expect_command_runs folder)
  execute_process(COMMAND "${folder}/bin/rotary" --version
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  expect_same("rotary --version" "${output}" "rotary ${VERSION}\n")
  execute_process(COMMAND "${folder}/bin/rotary" inspect "${SOURCE}/examples/models/llama-3.1-8b.json"
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "500000")
    message(FATAL_ERROR "rotary inspect printed:\n${output}")
  endif()
endfunction()

function(install_components)
  execute_process(COMMAND "${script}" install "${prefix}" ${ARGN}
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(uninstall)
  execute_process(COMMAND "${script}" uninstall "${prefix}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# ---- Files of others stay, before and after ----------------------------------------------------

set(theirs etc etc/other.conf include include/other.h)
file(WRITE "${root}/include/other.h" "")
file(WRITE "${root}/etc/other.conf" "")

install_components(${COMPONENTS})
expect_command_runs("${root}")
foreach(file IN ITEMS bin/rotary include/other.h include/rotary/rope.h include/rotary/rotary_c.h
        ${LIBDIR}/cmake/rotary/rotary-config.cmake ${LIBDIR}/pkgconfig/rotary_c.pc
        share/rotary/installed.txt)
  if(NOT EXISTS "${root}/${file}")
    list_tree(found)
    message(FATAL_ERROR "${file} is not installed; there are:\n  ${found}")
  endif()
endforeach()
list_tree(installed)
if("roformer" IN_LIST COMPONENTS)
  execute_process(COMMAND "${root}/bin/roformer" --version
                  OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
  expect_same("roformer --version" "${version}" "roformer ${VERSION}\n")
  if(NOT output MATCHES "runs with the PyTorch in /")
    message(FATAL_ERROR "the installation does not name its PyTorch:\n${output}")
  endif()
elseif(installed MATCHES "torch|roformer")
  message(FATAL_ERROR "more than ${COMPONENTS} is installed:\n  ${installed}")
endif()

# A second installation of a part changes nothing, and everything is still known to uninstall.
install_components(library)
list_tree(again)
expect_same("after a second installation" "${again}" "${installed}")

file(WRITE "${root}/share/rotary/notes.txt" "")  # of the user
uninstall()
list_tree(left)
expect_same("after uninstalling" "${left}" "${theirs};share;share/rotary;share/rotary/notes.txt")
file(REMOVE_RECURSE "${root}/share")

execute_process(COMMAND "${script}" uninstall "${prefix}" RESULT_VARIABLE code ERROR_VARIABLE error)
if(NOT code EQUAL 1 OR NOT error MATCHES "rotary is not installed in ")
  message(FATAL_ERROR "uninstalling twice: ${code} ${error}")
endif()
execute_process(COMMAND "${script}" install relative library RESULT_VARIABLE code ERROR_VARIABLE error)
if(NOT code EQUAL 2 OR NOT error MATCHES "PREFIX must be an absolute path")
  message(FATAL_ERROR "a relative prefix: ${code} ${error}")
endif()
execute_process(COMMAND "${script}" install "${prefix}" libary RESULT_VARIABLE code ERROR_VARIABLE error)
if(NOT code EQUAL 1 OR NOT error MATCHES "has nothing to install for: libary")
  message(FATAL_ERROR "an unknown component: ${code} ${error}")
endif()
list_tree(left)
expect_same("after calls that fail" "${left}" "${theirs}")

# ---- The Debian package ------------------------------------------------------------------------

if(NOT DPKG_DEB)
  return()
endif()
unset(ENV{DESTDIR})
execute_process(COMMAND "${CPACK}" -G DEB -B "${WORK}/packages" -D CPACK_DEBIAN_PACKAGE_SHLIBDEPS=OFF
                WORKING_DIRECTORY "${BINARY}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package "${WORK}/packages/rotary_${VERSION}*.deb")
execute_process(COMMAND "${DPKG_DEB}" --extract "${package}" "${WORK}/unpacked"
                COMMAND_ERROR_IS_FATAL ANY)
expect_command_runs("${WORK}/unpacked/usr")
file(GLOB_RECURSE files RELATIVE "${WORK}/unpacked" "${WORK}/unpacked/*")
if(NOT "usr/include/rotary/rotary_c.h" IN_LIST files OR files MATCHES "torch|roformer")
  message(FATAL_ERROR "${package} holds:\n  ${files}")
endif()
