/* Runs any model without Python: arrays from standard input, one after the other, results to standard output.
 *
 *     executable = relax.build(mod, "llvm", exec_mode="compiled")
 *     executable.export_library("model.so")
 *
 *     cc -O2 -o run_any_model run_any_model.c ./model.so -lm -lpthread
 *     ./run_any_model in:602112 out:4000 < input > output
 *
 * A word for each argument of model_main, in the order of model.h: in:BYTES is an array that is read, out:BYTES one that
 * is written, a number is passed as it is (the dimensions that the header lists last). run_model.c calls a model by its
 * declared types instead.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t model_main_packed(const void *slots);
void tunefarm_set_threads(int32_t count);

int main(int argc, char **argv) {
    int64_t *slots = calloc((size_t)argc, sizeof *slots);
    for (int i = 1; i < argc; i++) {
        int reads = strncmp(argv[i], "in:", 3) == 0, writes = strncmp(argv[i], "out:", 4) == 0;
        if (!reads && !writes) {
            slots[i - 1] = atoll(argv[i]);
            continue;
        }
        size_t bytes = (size_t)atoll(argv[i] + (reads ? 3 : 4));
        void *array = aligned_alloc(64, (bytes + 64) / 64 * 64);
        if (array == NULL || (reads && fread(array, 1, bytes, stdin) != bytes)) {
            fprintf(stderr, "argument %d: %zu bytes are wanted\n", i, bytes);
            return 2;
        }
        slots[i - 1] = (int64_t)(intptr_t)array;
    }
    tunefarm_set_threads(2);
    int32_t code = model_main_packed(slots);
    if (code != 0) {
        fprintf(stderr, "the model failed with code %d: see model.h\n", (int)code);
        return 1;
    }
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "out:", 4) == 0)
            fwrite((void *)(intptr_t)slots[i - 1], 1, (size_t)atoll(argv[i] + 4), stdout);
    return 0;
}
