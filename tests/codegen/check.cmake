# Compiles the program that checks generated headers, and runs it.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${COMPILE} -I${HEADERS} ${SOURCE} -o ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
