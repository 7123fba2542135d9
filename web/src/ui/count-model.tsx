/** Select the model to count tokens for. */

import { chooseCountModel, countModel } from "../api/counting";
import { useResource } from "../api/resource";
import type { ModelList } from "../api/types";
import { Choice } from "./fields";

export function CountModel() {
  const read = useResource<ModelList>("/models");
  const models = read.data?.models ?? [];
  return (
    <div class="count-model">
      <Choice
        label="Tokens for" value={countModel.value} onInput={chooseCountModel}
        options={[["", read.data ? `${read.data.default} (default)` : "default"], ...models.map((each) => [each.id, each.id] as const)]}
      />
    </div>
  );
}
