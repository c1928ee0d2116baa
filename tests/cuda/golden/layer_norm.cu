__device__ __forceinline__ float fw_add_f32_of_32(float x) {
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    return x;
}
extern "C" __global__ void __launch_bounds__(128, 1)
k0_sum_add(const float* __restrict__ x0, const float* __restrict__ x2, const float* __restrict__ x1, float* b0) {
    const int lane = threadIdx.x % 32;
    const int task = blockIdx.x * 4 + threadIdx.x / 32;
    float r0_1 = 0.0f;
    float part2 = -0.0f;
    #pragma unroll
    for (int iteration4 = 0; iteration4 < 3; ++iteration4) {
        const int k_3 = lane + iteration4 * 32;
        if (k_3 < 65) {
            {
                __align__(16) float vector5[2];
                const int v6 = (task * 130);
                fw_move<8>(vector5, &x0[(v6 + (k_3 * 2))]);
                {
                    part2 = (part2 + vector5[0]);
                }
                {
                    part2 = (part2 + vector5[1]);
                }
            }
        }
    }
    r0_1 = (r0_1 + fw_add_f32_of_32(part2));
    float r1_7 = 0.0f;
    float part8 = -0.0f;
    #pragma unroll
    for (int iteration10 = 0; iteration10 < 3; ++iteration10) {
        const int k_9 = lane + iteration10 * 32;
        if (k_9 < 65) {
            {
                __align__(16) float vector11[2];
                const int v12 = (task * 130);
                fw_move<8>(vector11, &x0[(v12 + (k_9 * 2))]);
                {
                    const float v13 = (r0_1 / 130.0f);
                    const float v14 = (vector11[0] - v13);
                    part8 = fmaf(v14, v14, part8);
                }
                {
                    const float v15 = (r0_1 / 130.0f);
                    const float v16 = (vector11[1] - v15);
                    part8 = fmaf(v16, v16, part8);
                }
            }
        }
    }
    r1_7 = (r1_7 + fw_add_f32_of_32(part8));
    #pragma unroll
    for (int iteration18 = 0; iteration18 < 3; ++iteration18) {
        const int k_17 = lane + iteration18 * 32;
        if (k_17 < 65) {
            {
                __align__(16) float vector19[2];
                const int v20 = (k_17 * 2);
                fw_move<8>(vector19, &x2[v20]);
                __align__(16) float vector21[2];
                fw_move<8>(vector21, &x1[v20]);
                __align__(16) float vector22[2];
                const int v23 = (task * 130);
                fw_move<8>(vector22, &x0[(v23 + v20)]);
                __align__(16) float vector24[2];
                {
                    const float v25 = (1.0f / sqrtf(((r1_7 / 130.0f) + 1e-05f)));
                    const float v26 = (r0_1 / 130.0f);
                    const float v27 = (((vector22[0] - v26) * v25) * vector21[0]);
                    float t0_28 = (v27 + vector19[0]);
                    vector24[0] = t0_28;
                }
                {
                    const float v29 = (1.0f / sqrtf(((r1_7 / 130.0f) + 1e-05f)));
                    const float v30 = (r0_1 / 130.0f);
                    const float v31 = (((vector22[1] - v30) * v29) * vector21[1]);
                    float t0_32 = (v31 + vector19[1]);
                    vector24[1] = t0_32;
                }
                fw_move<8>(&b0[(v23 + v20)], vector24);
            }
        }
    }
}
