cmake_minimum_required(VERSION 3.25)

# Installs the build into a fresh prefix, then configures, builds and runs this folder's project on it.
set(prefix ${BUILD}/consumer/prefix)
set(build ${BUILD}/consumer/build)
file(REMOVE_RECURSE ${BUILD}/consumer)

execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component development
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${build} -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${CXX} -D NATIVE_PROGRAM=${CMAKE_CURRENT_LIST_DIR}/../native/contract_program.cpp
  -D hjcdik_DIR=${prefix}/${LIBDIR}/cmake/hjcdik COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${build} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${build}/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${build}/header_alone COMMAND_ERROR_IS_FATAL ANY)
unset(ENV{HJCDIK_NATIVE_ROBOT})
execute_process(COMMAND ${build}/native 7 WORKING_DIRECTORY ${build} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${build}/native_ur5e 6 WORKING_DIRECTORY ${build} COMMAND_ERROR_IS_FATAL ANY)
