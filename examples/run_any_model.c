/* Runs any model without Python: arrays from standard input, one after the other, results to standard output.
 *
 *     executable = relax.build(mod, "llvm", exec_mode="compiled")
 *     executable.export_library("model.so")
 *
 *     cc -O2 -o run_any_model run_any_model.c ./model.so -lm -lpthread
 *     ./run_any_model in:602112 out:4000 < input > output
 *
 * A word for each argument of model_main, in the order of model.h: in:BYTES is an array that is read, out:BYTES one that
 * is written, made:RANK:BYTES a result of so many dimensions whose shape the model finds out, each element of BYTES, and
 * a number is passed as it is (the dimensions that the header lists last). run_model.c calls a model by its declared
 * types instead.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t model_main_packed(const void *slots);
void tunefarm_set_threads(int32_t count);
void tunefarm_free(void *address);

/* How many bytes a result of the model's own memory has: of `words` the first two are its address and the room there. */
static size_t made_bytes(const int64_t *words, const char *kind) {
    char *element;
    long rank = strtol(kind, &element, 10);
    size_t bytes = (size_t)atoll(element + 1);
    for (long axis = 0; axis < rank; axis++)
        bytes *= (size_t)words[2 + axis];
    return bytes;
}

int main(int argc, char **argv) {
    int64_t *slots = calloc((size_t)argc, sizeof *slots);
    for (int i = 1; i < argc; i++) {
        int reads = strncmp(argv[i], "in:", 3) == 0, writes = strncmp(argv[i], "out:", 4) == 0;
        if (strncmp(argv[i], "made:", 5) == 0) {
            slots[i - 1] = (int64_t)(intptr_t)calloc(2 + (size_t)atoll(argv[i] + 5), sizeof(int64_t));
            continue;
        }
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
    for (int i = 1; i < argc; i++) {
        int64_t *array = (int64_t *)(intptr_t)slots[i - 1];
        if (strncmp(argv[i], "out:", 4) == 0)
            fwrite(array, 1, (size_t)atoll(argv[i] + 4), stdout);
        if (strncmp(argv[i], "made:", 5) == 0) {
            void *made = (void *)(intptr_t)array[0];
            fwrite(made, 1, made_bytes(array, argv[i] + 5), stdout);
            tunefarm_free(made);
        }
    }
    return 0;
}
