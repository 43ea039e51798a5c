/* Call a family's kernel at any size from C.
 *
 *   tunefarm build dense:M,3072,768 --name dense --format so --format header --out build/
 *   cc -Ibuild examples/run_family.c -o run build/dense.so -lm -lpthread
 *   ./run 1 16 100
 *
 * Each argument is a number of rows. The kernel for it is picked inside of `dense`.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dense.h"

#ifndef COLUMNS
#define COLUMNS 768
#define ROWS_OF_WEIGHT 3072
#endif

static float *numbers(size_t count) {
  float *made = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  for (size_t i = 0; i < count; i++) made[i] = (float)((i * 7) % 13) - 6;
  return made;
}

/* Whether the result is the product of the inputs, as three loops say. */
static int is_right(const float *data, const float *weight, const float *result, size_t rows) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < ROWS_OF_WEIGHT; j++) {
      double sum = 0;
      for (size_t k = 0; k < COLUMNS; k++) sum += data[i * COLUMNS + k] * weight[j * COLUMNS + k];
      if (fabs(sum - result[i * ROWS_OF_WEIGHT + j]) > 1e-3 * (1 + fabs(sum))) return 0;
    }
  return 1;
}

int main(int count, char **sizes) {
  tunefarm_set_threads(2);
  float *weight = numbers((size_t)ROWS_OF_WEIGHT * COLUMNS);
  int wrong = 0;
  for (int at = 1; at < count; at++) {
    int rows = atoi(sizes[at]);
    float *data = numbers((size_t)rows * COLUMNS), *result = numbers((size_t)rows * ROWS_OF_WEIGHT);
    dense(data, weight, result, rows);
    int right = is_right(data, weight, result, (size_t)rows);
    printf("%d rows: %s\n", rows, right ? "right" : "wrong");
    wrong += !right;
    free(data);
    free(result);
  }
  free(weight);
  return wrong != 0;
}
