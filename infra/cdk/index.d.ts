import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { ITable } from "aws-cdk-lib/aws-dynamodb";
import { Grant, IGrantable } from "aws-cdk-lib/aws-iam";
import { Construct } from "constructs";

export interface DynashardProps {
  /**
   * Parameters of the application by name, as docs/PARAMETERS.md lists them. Those that are left out have their default. Names and
   * ARNs may be those of other resources of the app.
   */
  readonly parameters?: { readonly [name: string]: string | number };
  /** Folder of the released files, other than that of this package. */
  readonly release?: string;
}

/** dynashard in a stack of its own or beside other resources: tables, functions, HTTP API and alarms. A stack holds one. */
export declare class Dynashard extends Construct {
  /** Where the HTTP API answers. */
  readonly apiUrl: string;
  /** The table that holds the items. Write to it through the API alone. */
  readonly mainTable: ITable;
  readonly metadataTable: ITable;
  /** The outputs of the application by name. */
  readonly outputs: { readonly [name: string]: string };
  /** The resources by their names in the template. */
  readonly include: CfnInclude;
  constructor(scope: Construct, id: string, props?: DynashardProps);
  /** Lets somebody call the HTTP API, whose requests are signed by default. */
  grantInvoke(grantee: IGrantable): Grant;
}
